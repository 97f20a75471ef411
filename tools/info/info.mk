# SPDX-License-Identifier: BSD-3-Clause
# oriel-info: what the library is, sees and has chosen. A client of the shared object.

bin_PROGRAMS += tools/oriel-info
tools_oriel_info_SOURCES = \
    %D%/info.h \
    %D%/info_doc.c \
    %D%/info_ranks.c \
    %D%/info_sections.c \
    %D%/oriel-info.c
tools_oriel_info_LDADD   = liboriel.la
dist_man_MANS           += %D%/oriel-info.1
