dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl ORIEL_SANITIZE: the build kinds. Each switch adds its flags to ORIEL_KIND_CFLAGS and
dnl ORIEL_KIND_LDFLAGS; ORIEL_BUILD_KIND names them for the summary and for tests that skip.
dnl Thread and address sanitizer cannot live in one process, so asking for both is an error.

dnl ORIEL_KIND(name, help, compiler flags, linker flags)
AC_DEFUN([ORIEL_KIND], [
AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [$2])], [], [enable_$1=no])
AS_IF([test "x$enable_$1" != xno], [
    ORIEL_KIND_CFLAGS="$ORIEL_KIND_CFLAGS $3"
    ORIEL_KIND_LDFLAGS="$ORIEL_KIND_LDFLAGS $4"
    ORIEL_BUILD_KIND="$ORIEL_BUILD_KIND $1"
])
])

AC_DEFUN([ORIEL_SANITIZE], [
ORIEL_KIND_CFLAGS=
ORIEL_KIND_LDFLAGS=
ORIEL_BUILD_KIND=
ORIEL_KIND([debug], [assertions, lock-order witness and pool poison], [-DORL_DEBUG=1])
ORIEL_KIND([asan], [address sanitizer],
    [-fsanitize=address -fno-omit-frame-pointer], [-fsanitize=address])
ORIEL_KIND([ubsan], [undefined-behaviour sanitizer],
    [-fsanitize=undefined -fno-sanitize-recover=all], [-fsanitize=undefined])
ORIEL_KIND([tsan], [thread sanitizer (tests/race only)],
    [-fsanitize=thread -fno-omit-frame-pointer], [-fsanitize=thread])
ORIEL_KIND([coverage], [line coverage by gcov], [--coverage -fprofile-update=atomic], [--coverage])
AS_IF([test "x$enable_tsan" != xno && test "x$enable_asan" != xno],
    [AC_MSG_ERROR([--enable-tsan and --enable-asan exclude each other])])

oriel_save_CFLAGS=$CFLAGS
oriel_save_LDFLAGS=$LDFLAGS
CFLAGS="$CFLAGS $ORIEL_KIND_CFLAGS"
LDFLAGS="$LDFLAGS $ORIEL_KIND_LDFLAGS"
AC_MSG_CHECKING([whether $CC links a program with:${ORIEL_KIND_CFLAGS:- no extra flags}])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[]], [[]])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$CC cannot build with$ORIEL_KIND_CFLAGS; is its run-time library installed?])])
CFLAGS=$oriel_save_CFLAGS
LDFLAGS=$oriel_save_LDFLAGS

dnl Every symbol must be found at link time, except where a sanitizer's run time brings them late.
AS_IF([test "x$enable_tsan$enable_asan$enable_ubsan" = xnonono],
    [ORIEL_NO_UNDEFINED="-no-undefined -Wl,-z,defs"], [ORIEL_NO_UNDEFINED=])
AS_IF([test -z "$ORIEL_BUILD_KIND"], [ORIEL_BUILD_KIND=release])
AC_SUBST([ORIEL_KIND_CFLAGS])
AC_SUBST([ORIEL_KIND_LDFLAGS])
AC_SUBST([ORIEL_NO_UNDEFINED])
AC_SUBST([ORIEL_BUILD_KIND])
])
