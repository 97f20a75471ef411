dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl ORIEL_DEP(name, pkg-config module, header, symbol, Debian package, mode)
dnl
dnl One outside library: pkg-config knows it, its header compiles, its symbol links. Mode is
dnl   required   configure ends with an error that names the Debian package;
dnl   optional   --with-NAME=yes|no|auto, and "yes" fails where it is absent;
dnl   tests      looked for, never an error here; make check says what is missing.
dnl
dnl Sets NAME_CFLAGS (include folders as -isystem, so that foreign macros cannot warn in our
dnl code), NAME_LIBS, the define ORIEL_HAVE_NAME, the automake conditional HAVE_NAME, and
dnl oriel_say_name, a line for the closing summary.

AC_DEFUN([ORIEL_DEP], [
m4_pushdef([UP], m4_toupper([$1]))
oriel_with_[]$1=auto
m4_if([$6], [optional], [
AC_ARG_WITH([$1],
    [AS_HELP_STRING([--with-$1=yes|no|auto], [use $1 (default: auto, which means when found)])],
    [oriel_with_[]$1=$withval])
AS_CASE([$oriel_with_[]$1], [yes|no|auto], [],
    [AC_MSG_ERROR([--with-$1=$oriel_with_[]$1 is not one of yes, no, auto])])
])
oriel_have_[]$1=no
oriel_say_[]$1="no (not asked for)"
AS_IF([test "x$oriel_with_[]$1" != xno], [
    oriel_say_[]$1="no (Debian package: $5)"
    PKG_CHECK_MODULES(UP, [$2], [
        UP[]_CFLAGS=`AS_ECHO([" $UP[]_CFLAGS"]) | $SED 's/ -I */ -isystem /g'`
        oriel_save_CPPFLAGS=$CPPFLAGS
        oriel_save_LIBS=$LIBS
        CPPFLAGS="$CPPFLAGS $UP[]_CFLAGS"
        LIBS="$UP[]_LIBS $LIBS"
        AC_CHECK_HEADER([$3], [AC_CHECK_FUNC([$4], [oriel_have_[]$1=yes])])
        CPPFLAGS=$oriel_save_CPPFLAGS
        LIBS=$oriel_save_LIBS
    ], [:])
])
AS_IF([test $oriel_have_[]$1 = yes], [
    AC_DEFINE([ORIEL_HAVE_]UP, [1], [The library $1 was found.])
    oriel_say_[]$1="yes (`$PKG_CONFIG --modversion m4_car(m4_unquote(m4_split([$2])))`)"
], [
    UP[]_CFLAGS=
    UP[]_LIBS=
    AS_IF([test "x$oriel_with_[]$1" = xyes || test "x$6" = xrequired],
        [AC_MSG_ERROR([$2 with <$3> and $4 is needed and was not found.
On Debian install it with: apt-get install $5])])
])
AM_CONDITIONAL([HAVE_]UP, [test $oriel_have_[]$1 = yes])
m4_popdef([UP])
])
