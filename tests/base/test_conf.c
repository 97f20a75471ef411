/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings: defaults, environment and program in the right order, and errors in words.
 *
 * Each test runs in a process of its own, so that it may change the environment.
 */
#include "base/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/log.h"
#include "base/status.h"
#include "base/sys.h"

extern char **environ;

static int log_fd;
static char log_text[16384];

/* No ORIEL_ variable of the tester reaches a test, and the log goes to a file. */
static void clean(void)
{
    static char *empty[] = { NULL };
    environ = empty;
    log_fd = memfd_create("log", MFD_CLOEXEC);
    orl_log_redirect(log_fd);
}

TestSuite(conf, .init = clean);

static const char *logged(void)
{
    ssize_t n = pread(log_fd, log_text, sizeof(log_text) - 1, 0);
    log_text[n > 0 ? n : 0] = '\0';
    return log_text;
}

/* Loads afresh with one variable set. */
static int load_with(const char *name, const char *value)
{
    clearenv();
    setenv(name, value, 1);
    orl_conf_reset_for_test();
    return orl_conf_load();
}

Test(conf, defaults)
{
    cr_assert_eq(orl_conf.inflight, 0, "empty before loading");
    cr_assert_eq(orl_conf_load(), ORL_OK);
    cr_assert_str_eq(orl_conf.log, "warn");
    cr_assert_eq(orl_conf.boot, ORL_CONF_BOOT_AUTO);
    cr_assert_eq(orl_conf.boot_timeout, UINT64_C(30000000000));
    cr_assert_str_eq(orl_conf.transports, "self,shm,ofi");
    cr_assert_eq(orl_conf.shm_size, 0);
    cr_assert_eq(orl_conf.shm_copy, ORL_CONF_SHM_COPY_AUTO);
    cr_assert_eq(orl_conf.spin_time, 2000);
    cr_assert_eq(orl_conf.inflight, 1024);
    cr_assert_eq(orl_conf.watchdog, 0);
    cr_assert_eq(orl_conf.coll_flat_max, 8);
    cr_assert_not(orl_conf.trace_dump);
    cr_assert_str_eq(logged(), "", "a healthy start prints nothing");
}

Test(conf, names_of_choices_are_in_the_order_of_the_rows)
{
    cr_assert_eq(load_with("ORIEL_BOOT", "single"), ORL_OK);
    cr_assert_eq(orl_conf.boot, ORL_CONF_BOOT_SINGLE);
    cr_assert_eq(load_with("ORIEL_BOOT", "pmix"), ORL_OK);
    cr_assert_eq(orl_conf.boot, ORL_CONF_BOOT_PMIX);
    cr_assert_eq(load_with("ORIEL_BOOT", "local"), ORL_OK);
    cr_assert_eq(orl_conf.boot, ORL_CONF_BOOT_LOCAL);
    cr_assert_eq(load_with("ORIEL_SHM_BACKING", "memfd"), ORL_OK);
    cr_assert_eq(orl_conf.shm_backing, (int)ORL_SYS_BACKING_MEMFD);
    cr_assert_eq(load_with("ORIEL_SHM_BACKING", "file"), ORL_OK);
    cr_assert_eq(orl_conf.shm_backing, (int)ORL_SYS_BACKING_FILE);
    cr_assert_eq(load_with("ORIEL_SHM_COPY", "ring"), ORL_OK);
    cr_assert_eq(orl_conf.shm_copy, ORL_CONF_SHM_COPY_RING);
    cr_assert_eq(load_with("ORIEL_SHM_COPY", "cma"), ORL_OK);
    cr_assert_eq(orl_conf.shm_copy, ORL_CONF_SHM_COPY_CMA);
    cr_assert_eq(load_with("ORIEL_SHM_HUGE", "never"), ORL_OK);
    cr_assert_eq(orl_conf.shm_huge, ORL_CONF_SHM_HUGE_NEVER);
    cr_assert_eq(load_with("ORIEL_AGENT", "off"), ORL_OK);
    cr_assert_eq(orl_conf.agent, ORL_CONF_AGENT_OFF);
}

Test(conf, times)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = { { "0", 0 },
                 { "5", 5000000000 },
                 { "7ns", 7 },
                 { "3us", 3000 },
                 { "1.5ms", 1500000 },
                 { "2 min", 120000000000 },
                 { "1H", 3600000000000 },
                 { "0.000001s", 1000 } };
    static const char *const wrong[] = { "3 parsecs", "-1s",  "s",
                                         "1e3",       "0x10", "1.5ns",
                                         "2days",     "25h",  "99999999999999999999999h" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(load_with("ORIEL_WATCHDOG", good[i].text), ORL_OK, "%s", good[i].text);
        cr_assert_eq(orl_conf.watchdog, good[i].ns, "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert_eq(load_with("ORIEL_WATCHDOG", wrong[i]), ORL_ERR_CONF, "%s", wrong[i]);
    }
}

Test(conf, sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = { { "0", 0 },
                 { "1m", UINT64_C(1) << 20 },
                 { "1048576", UINT64_C(1) << 20 },
                 { "1.5G", UINT64_C(3) << 29 },
                 { "64 MiB", UINT64_C(64) << 20 },
                 { "1t", UINT64_C(1) << 40 } };
    static const char *const wrong[] = { "1", "1023k", "1025g", "20000000t", "1x", "m", "-1m" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(load_with("ORIEL_SHM_SIZE", good[i].text), ORL_OK, "%s", good[i].text);
        cr_assert_eq(orl_conf.shm_size, good[i].bytes, "%s", good[i].text);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert_eq(load_with("ORIEL_SHM_SIZE", wrong[i]), ORL_ERR_CONF, "%s", wrong[i]);
    }
}

Test(conf, numbers_and_switches)
{
    cr_assert_eq(load_with("ORIEL_INFLIGHT", "1048576"), ORL_OK);
    cr_assert_eq(orl_conf.inflight, 1048576);
    cr_assert_eq(load_with("ORIEL_INFLIGHT", "0"), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_INFLIGHT", "1048577"), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_INFLIGHT", "many"), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_INFLIGHT", "8k"), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_TRACE_DUMP", "Yes"), ORL_OK);
    cr_assert(orl_conf.trace_dump);
    cr_assert_eq(load_with("ORIEL_TRACE_DUMP", "off"), ORL_OK);
    cr_assert_not(orl_conf.trace_dump);
    cr_assert_eq(load_with("ORIEL_TRACE_DUMP", "2"), ORL_ERR_CONF);
}

Test(conf, lists)
{
    cr_assert_eq(load_with("ORIEL_TRANSPORTS", " shm , self"), ORL_OK);
    cr_assert_str_eq(orl_conf.transports, "shm,self");
    cr_assert(orl_conf_list_has(orl_conf.transports, "shm"));
    cr_assert_not(orl_conf_list_has(orl_conf.transports, "sh"));
    cr_assert_not(orl_conf_list_has("", ""));
    cr_assert_eq(load_with("ORIEL_TRANSPORTS", "shm"), ORL_OK);
    cr_assert_not(orl_conf_list_has(orl_conf.transports, "self"));
    cr_assert_eq(load_with("ORIEL_TRANSPORTS", "shm,verbs"), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "valid: a list of self, shm, ofi"));
    cr_assert_eq(load_with("ORIEL_TRANSPORTS", "shm,shm"), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_TRANSPORTS", "shm self"), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_TRANSPORTS", "shm,"), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_TRANSPORTS", "self,ofi"), ORL_OK);
    cr_assert(orl_conf_list_has(orl_conf.transports, "ofi"));
}

/* What the words mean is the business of who uses them. */
Test(conf, texts)
{
    char long_text[300];

    memset(long_text, 'a', sizeof(long_text));
    long_text[255] = '\0';
    cr_assert_eq(load_with("ORIEL_NICS", "eth*,^eth1"), ORL_OK);
    cr_assert_str_eq(orl_conf.nics, "eth*,^eth1");
    cr_assert_eq(load_with("ORIEL_NICS", long_text), ORL_OK);
    cr_assert_str_eq(orl_conf.nics, long_text);
    long_text[255] = 'a';
    long_text[256] = '\0';
    cr_assert_eq(load_with("ORIEL_NICS", long_text), ORL_ERR_CONF);
    cr_assert_eq(load_with("ORIEL_OFI_PROVIDER", "tcp;ofi_rxm"), ORL_OK);
    cr_assert_str_eq(orl_conf.ofi_provider, "tcp;ofi_rxm");
    cr_assert_eq(load_with("ORIEL_OFI_PROVIDER", ""), ORL_OK);
    cr_assert_str_eq(orl_conf.ofi_provider, "");
}

Test(conf, errors_name_variable_value_and_range)
{
    cr_assert_eq(load_with("ORIEL_SPIN_TIME", "3 parsecs"), ORL_ERR_CONF);
    cr_assert_str_eq(orl_last_error(), "ORIEL_SPIN_TIME is '3 parsecs': not a time; valid: 0 to 1 "
                                       "s, such as 2us");
    cr_assert_eq(load_with("ORIEL_BOOT", "mpi"), ORL_ERR_CONF);
    cr_assert_str_eq(orl_last_error(), "ORIEL_BOOT is 'mpi': not one of the choices; valid: auto, "
                                       "pmix, local, single");
    cr_assert_eq(load_with("ORIEL_COLL_FLAT_MAX", "65"), ORL_ERR_CONF);
    cr_assert_str_eq(orl_last_error(), "ORIEL_COLL_FLAT_MAX is '65': too large; valid: 2 to 64");
    cr_assert_eq(load_with("ORIEL_LOG", "warn,fish:info"), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "ORIEL_LOG is 'warn,fish:info': 'fish' is not"));
    cr_assert_eq(orl_conf.coll_flat_max, 0, "nothing is loaded after an error");
}

Test(conf, an_error_can_be_mended_and_loading_is_done_once)
{
    setenv("ORIEL_INFLIGHT", "none", 1);
    cr_assert_eq(orl_conf_load(), ORL_ERR_CONF);
    setenv("ORIEL_INFLIGHT", "64", 1);
    cr_assert_eq(orl_conf_load(), ORL_OK);
    setenv("ORIEL_INFLIGHT", "65", 1);
    cr_assert_eq(orl_conf_load(), ORL_OK);
    cr_assert_eq(orl_conf.inflight, 64);
}

Test(conf, empty_variables_count_as_unset)
{
    cr_assert_eq(load_with("ORIEL_INFLIGHT", ""), ORL_OK);
    cr_assert_eq(orl_conf.inflight, 1024);
}

Test(conf, values_survive_changes_of_the_environment)
{
    cr_assert_eq(load_with("ORIEL_LOG", "error"), ORL_OK);
    setenv("ORIEL_LOG", "debug", 1);
    clearenv();
    cr_assert_str_eq(orl_conf.log, "error");
}

Test(conf, too_long_texts_are_refused)
{
    char text[400];
    memset(text, 'w', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    cr_assert_eq(load_with("ORIEL_LOG", text), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "too long"));
}

Test(conf, the_program_stands_over_the_environment)
{
    setenv("ORIEL_INFLIGHT", "32", 1);
    setenv("ORIEL_COLL_FLAT_MAX", "4", 1);
    cr_assert_eq(orl_conf_override("ORIEL_INFLIGHT", "16"), ORL_OK);
    cr_assert_eq(orl_conf_override("WATCHDOG", "5s"), ORL_OK);
    cr_assert_eq(orl_conf_override("INFLIGHT", "0"), ORL_ERR_CONF);
    cr_assert_eq(orl_conf_override("INFLIHGT", "1"), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "nearest is ORIEL_INFLIGHT"));
    cr_assert_eq(orl_conf_load(), ORL_OK);
    cr_assert_eq(orl_conf.inflight, 16);
    cr_assert_eq(orl_conf.coll_flat_max, 4);
    cr_assert_eq(orl_conf.watchdog, UINT64_C(5000000000));
    cr_assert_eq(orl_conf_override("INFLIGHT", "8"), ORL_ERR_STATE);
}

Test(conf, unknown_names_are_told_with_the_nearest)
{
    setenv("ORIEL_SPINTIME", "1us", 1);
    setenv("ORIEL_DEBUG_FISH", "1", 1);
    setenv("ORIEL_RUN_SOCKET", "7", 1);
    setenv("ORIELX", "1", 1);
    cr_assert_eq(orl_conf_load(), ORL_OK);
    cr_assert_str_eq(logged(), "", "loading says nothing");
    orl_conf_warn_unknown();
    const char *first = strstr(logged(), "conf] warn: there is no setting ORIEL_SPINTIME; the "
                                         "nearest is ORIEL_SPIN_TIME\n");
    cr_assert_not_null(first);
    cr_assert_null(strstr(first + 60, "ORIEL_SPINTIME"));
    cr_assert_not_null(strstr(log_text, "ORIEL_DEBUG_FISH"));
    cr_assert_null(strstr(log_text, "ORIEL_RUN_SOCKET"));
    cr_assert_null(strstr(log_text, "ORIELX"));
    cr_assert_str_eq(orl_conf_launcher_variable("ORIEL_RUN_SOCKET"), "7");
}

Test(conf, the_log_setting_decides_about_warnings)
{
    setenv("ORIEL_FISH", "1", 1);
    setenv("ORIEL_LOG", "error", 1);
    cr_assert_eq(orl_conf_load(), ORL_OK);
    orl_conf_warn_unknown();
    cr_assert_str_eq(logged(), "");
}

/* For the way out after a failure: what is right counts, the rest is as by default. */
Test(conf, sound_settings_survive_wrong_ones)
{
    setenv("ORIEL_SPIN_TIME", "x", 1);
    setenv("ORIEL_BOOT_TIMEOUT", "7s", 1);
    cr_assert_eq(orl_conf_load(), ORL_ERR_CONF);
    orl_conf_load_sound();
    cr_assert_eq(orl_conf.spin_time, UINT64_C(2000));
    cr_assert_eq(orl_conf.boot_timeout, UINT64_C(7000000000));
    cr_assert_str_eq(orl_conf.transports, "self,shm,ofi");
    setenv("ORIEL_SPIN_TIME", "3us", 1);
    cr_assert_eq(orl_conf_load(), ORL_OK, "it did not count as loaded");
    cr_assert_eq(orl_conf.spin_time, UINT64_C(3000));
}

/* Before loading a row tells what loading would find, and leaves the last error alone. */
Test(conf, rows_before_loading)
{
    struct orl_conf_row row;
    size_t wrong = 0;

    setenv("ORIEL_INFLIGHT", "lots", 1);
    setenv("ORIEL_LOG", "loud", 1);
    setenv("ORIEL_AGENT", "off", 1);
    cr_assert_eq(orl_conf_load(), ORL_ERR_CONF);
    char kept[ORL_ERROR_TEXT_BYTES];
    strcpy(kept, orl_last_error());
    for (size_t i = 0; i < orl_conf_count(); i++) {
        cr_assert_eq(orl_conf_row(i, &row), ORL_OK);
        wrong += row.problem[0] != '\0';
        if (strcmp(row.name, "ORIEL_INFLIGHT") == 0) {
            cr_assert_str_eq(row.value, "lots");
            cr_assert_not_null(strstr(row.problem, "not a whole number"));
        }
        if (strcmp(row.name, "ORIEL_AGENT") == 0) {
            cr_assert_str_eq(row.value, "off");
            cr_assert_eq(row.origin, ORL_CONF_FROM_ENVIRONMENT);
        }
        cr_assert_str_eq(orl_last_error(), kept);
    }
    cr_assert_eq(wrong, 2);
    cr_assert(!orl_conf_is_given("NO_SUCH"));
}
