dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl ORIEL_FLAGS collects, out of the project's list, the warning and code flags that this compiler
dnl knows: ORIEL_CFLAGS for our code, ORIEL_TEST_CFLAGS for what test macros make necessary.
dnl --enable-werror turns warnings into errors (always on in CI, never the default of a tarball).

dnl ORIEL_TRY_FLAG(flag, variable): append the flag when the compiler takes it without a word.
dnl A -Wno-x is tried as -Wx, since compilers take any -Wno- in silence.
AC_DEFUN([ORIEL_TRY_FLAG], [
oriel_save_CFLAGS=$CFLAGS
CFLAGS="-Werror $oriel_unknown_is_error m4_bpatsubst([$1], [^-Wno-], [-W])"
AC_MSG_CHECKING([whether $CC knows $1])
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[int oriel_flag_probe; ]])],
    [AC_MSG_RESULT([yes])
     $2="$$2 $1"],
    [AC_MSG_RESULT([no])])
CFLAGS=$oriel_save_CFLAGS
])

AC_DEFUN([ORIEL_FLAGS], [
AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [a warning ends the build])],
    [], [enable_werror=no])

oriel_unknown_is_error=
ORIEL_TRY_FLAG([-Werror=unknown-warning-option], [oriel_unknown_is_error])

ORIEL_CFLAGS="-std=c11 -pthread"
m4_foreach_w([flag], [
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wold-style-definition -Wwrite-strings -Wcast-qual -Wpointer-arith
    -Wundef -Wvla -Wformat=2 -Wredundant-decls -Wnested-externs -Wswitch-enum -Wdate-time
    -Wdouble-promotion -Wframe-larger-than=4096
    -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init
    -Wcast-align=strict -Wimplicit-fallthrough=5 -Walloc-zero
    -Wthread-safety -Wcomma -Wextra-semi -Wmissing-variable-declarations -Wunreachable-code
    -fno-common -fvisibility=hidden -fno-plt],
    [ORIEL_TRY_FLAG(flag, [ORIEL_CFLAGS])])

ORIEL_TEST_CFLAGS=
m4_foreach_w([flag], [
    -Wno-pedantic -Wno-missing-prototypes -Wno-missing-variable-declarations -Wno-redundant-decls
    -Wno-conversion -Wno-switch-enum -Wno-double-promotion -Wno-unreachable-code
    -Wframe-larger-than=1048576 -Wno-extra-semi -Wno-duplicated-branches
    -Wno-gnu-zero-variadic-macro-arguments -Wno-thread-safety-analysis],
    [ORIEL_TRY_FLAG(flag, [ORIEL_TEST_CFLAGS])])

AS_IF([test "x$enable_werror" != xno], [ORIEL_CFLAGS="$ORIEL_CFLAGS -Werror"])
AC_SUBST([ORIEL_CFLAGS])
AC_SUBST([ORIEL_TEST_CFLAGS])
])
