/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap records on the wire: what is written is read, any damage is refused, and so is each
 * field that no healthy rank would write, even under a checksum that fits.
 */
#include <criterion/criterion.h>

#include <string.h>

#include "base/crc.h"
#include "core/boot/boot.h"
#include "oriel.h"

#define HEAD 16 /* version, length, checksum */

/* Where fields lie behind the head. */
#define LEADER_AT (HEAD + 8 + 16 + 32 + 8 + CORE_MASK_BYTES + 4)
#define CARDS_AT  (LEADER_AT + 4 + 8 + 8 + 8 + 8 + 16 + 64)
#define CARD_AT   (CARDS_AT + 8)

static struct core_record healthy(void)
{
    struct core_record record = { .version = CORE_WIRE_VERSION,
                                  .rank = 7,
                                  .leader = 4,
                                  .pid = 4711,
                                  .start_time = 123456789012,
                                  .hostname = "here",
                                  .nonce = 99,
                                  .ncards = 2 };
    record.card[0] = (struct fab_card){ .tag = "ofi/net/1", .mbps = 100000, .bytes = 24 };
    memset(record.card[0].address, 0xa5, 24);
    memset(record.card[0].net, 0x11, sizeof(record.card[0].net));
    record.card[1] = (struct fab_card){ .tag = "ofi/efa-direct/", .bytes = FAB_ADDRESS_BYTES };
    memset(record.card[1].address, 0x5a, FAB_ADDRESS_BYTES);
    return record;
}

/* As a rank would that means it: length and checksum fit. */
static void seal(unsigned char *bytes, size_t n)
{
    uint32_t crc = orl_crc32c(0, bytes + HEAD, n - HEAD);
    for (size_t i = 0; i < 4; i++) {
        bytes[4 + i] = (unsigned char)(n >> (8 * i));
        bytes[8 + i] = (unsigned char)(crc >> (8 * i));
    }
}

Test(record, what_is_written_is_read)
{
    struct core_record in = healthy();
    struct core_record out;
    unsigned char bytes[CORE_RECORD_BYTES];
    size_t n = core_record_encode(&in, bytes, sizeof(bytes));
    cr_assert_gt(n, 0);
    cr_assert_eq(core_record_decode(bytes, n, &out), 0);
    cr_assert_eq(memcmp(&in, &out, sizeof(in)), 0);
    in.leader = -1;
    in.ncards = 0;
    size_t without = core_record_encode(&in, bytes, sizeof(bytes));
    cr_assert_lt(without, n, "cards that are not there take no room");
    cr_assert_eq(core_record_decode(bytes, without, &out), 0);
    cr_assert_eq(out.leader, -1);
    cr_assert_eq(out.ncards, 0);
}

Test(record, the_largest_one_fits)
{
    struct core_record in = healthy();
    struct core_record out;
    unsigned char bytes[CORE_RECORD_BYTES];
    in.ncards = CORE_CARDS_MAX;
    for (uint32_t i = 0; i < in.ncards; i++) {
        in.card[i] = in.card[1];
    }
    in.status = ORIEL_ERR_CONF;
    memset(in.text, 'x', sizeof(in.text) - 1);
    size_t n = core_record_encode(&in, bytes, sizeof(bytes));
    cr_assert_gt(n, 0);
    cr_assert_eq(core_record_decode(bytes, n, &out), 0);
    cr_assert_eq(memcmp(&in, &out, sizeof(in)), 0);
    in.ncards++;
    cr_assert_eq(core_record_encode(&in, bytes, sizeof(bytes)), 0, "too many cards");
    in.ncards = 1;
    in.card[0].bytes = FAB_ADDRESS_BYTES + 1;
    cr_assert_eq(core_record_encode(&in, bytes, sizeof(bytes)), 0, "too long an address");
}

Test(record, every_damage_is_refused)
{
    struct core_record in = healthy();
    struct core_record out;
    unsigned char bytes[CORE_RECORD_BYTES];
    unsigned char copy[CORE_RECORD_BYTES];
    size_t n = core_record_encode(&in, bytes, sizeof(bytes));
    cr_assert_eq(core_record_encode(&in, copy, n - 1), 0);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(copy, bytes, n);
        copy[bit / 8] ^= (unsigned char)(1u << (bit % 8));
        cr_assert_eq(core_record_decode(copy, n, &out), ORIEL_ERR_BOOT, "bit %zu", bit);
    }
    for (size_t length = 0; length < n; length++) {
        cr_assert_eq(core_record_decode(bytes, length, &out), ORIEL_ERR_BOOT);
        if (length >= HEAD) {
            memcpy(copy, bytes, length);
            seal(copy, length);
            cr_assert_eq(core_record_decode(copy, length, &out), ORIEL_ERR_BOOT, "%zu", length);
        }
    }
}

struct lie {
    size_t at;
    size_t bytes;
    unsigned char value; /* of each of them */
    const char *words;
};

Test(record, fields_that_no_rank_would_write)
{
    static const struct lie lies[] = {
        { HEAD + 8 + 16, 32, 'h', "a name without end" },
        { CARDS_AT - 64, 64, '/', "a name without end" },
        { LEADER_AT, 1, 8, "rank 8 cannot be the lowest" },
        { LEADER_AT, 4, 0xfe, "cannot be the lowest" },
        { CARDS_AT, 1, CORE_CARDS_MAX + 1, "wrong length" },
        { CARDS_AT, 8, 0xff, "wrong length" },
        { CARDS_AT, 1, 1, "wrong length" },
        { CARD_AT, 16, 't', "card 1 of 2 is none" },
        { CARD_AT, 16, 0, "card 1 of 2 is none" },
        { CARD_AT + 2, 1, '\n', "card 1 of 2 is none" },
        { CARD_AT + 36 + 4, 1, FAB_ADDRESS_BYTES + 1, "wrong length" },
        { CARD_AT + 36 + 4, 1, 23, "wrong length" },
        { CARD_AT + 36 + 5, 1, 1, "wrong length" },
    };
    struct core_record in = healthy();
    struct core_record out;
    unsigned char bytes[CORE_RECORD_BYTES];
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        size_t n = core_record_encode(&in, bytes, sizeof(bytes));
        memset(bytes + lies[i].at, lies[i].value, lies[i].bytes);
        seal(bytes, n);
        cr_assert_eq(core_record_decode(bytes, n, &out), ORIEL_ERR_BOOT, "lie %zu", i);
        cr_expect_not_null(strstr(oriel_error_detail(), lies[i].words), "lie %zu: %s", i,
                           oriel_error_detail());
    }
}

Test(record, another_version_says_so)
{
    struct core_record in = healthy();
    struct core_record out;
    unsigned char bytes[CORE_RECORD_BYTES];
    size_t n = core_record_encode(&in, bytes, sizeof(bytes));
    bytes[0] = CORE_WIRE_VERSION + 1;
    cr_assert_eq(core_record_decode(bytes, n, &out), ORIEL_ERR_BOOT);
    cr_assert_not_null(strstr(oriel_error_detail(), "wire version"));
    cr_assert_not_null(strstr(oriel_error_detail(), "must load the same liboriel"));
}

/* ---------------------------------------------------------------- error cards */

Test(record, texts_are_cut_and_only_where_there_is_an_error)
{
    struct core_record in = { .rank = 3, .hostname = "here", .status = ORIEL_ERR_CONF };
    struct core_record out;
    unsigned char bytes[CORE_RECORD_BYTES];
    memset(in.text, 'x', sizeof(in.text)); /* without an end */
    size_t n = core_record_encode(&in, bytes, sizeof(bytes));
    cr_assert(n > 0 && n <= sizeof(bytes));
    cr_assert_eq(core_record_decode(bytes, n, &out), 0);
    cr_assert_eq(out.status, ORIEL_ERR_CONF);
    cr_assert_eq(strlen(out.text), sizeof(in.text) - 1);
    in.status = 0;
    size_t sound = core_record_encode(&in, bytes, sizeof(bytes));
    cr_assert_lt(sound, n, "a healthy record carries no text");
    cr_assert_eq(core_record_decode(bytes, sound, &out), 0);
    cr_assert_str_eq(out.text, "");
}
