# SPDX-License-Identifier: BSD-3-Clause
#
# tools/compare: from what the contestants measured to one object for each test, number of ranks,
# size and contestant. Input: lines "CONTESTANT {...}", the object as oriel-perf --json writes it.
# Variable contestants: their names, in order; the first is the one that the others are set against.
#
# A round's figure is the median of its samples. best is the best round's, median the rounds'
# median. A ratio is above 1 where the first contestant is ahead.

function field(name,   text)
{
    if (!match($0, "\"" name "\":"))
        return ""
    text = substr($0, RSTART + RLENGTH)
    sub(/[,}].*/, "", text)
    gsub(/"/, "", text)
    return text
}

# The place'th smallest of the figures of a cell, which are few.
function smallest(cell, place,   i, j, list, n, t)
{
    n = split(figures[cell], list, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j - 1] + 0 > list[j] + 0; j--) {
            t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
        }
    return list[place] + 0
}

function median(cell,   n)
{
    n = rounds[cell]
    return (smallest(cell, int((n + 1) / 2)) + smallest(cell, int(n / 2) + 1)) / 2
}

function best(cell, is_time) { return smallest(cell, is_time ? 1 : rounds[cell]) }

function ratio(ours, theirs, is_time)
{
    if (ours <= 0 || theirs <= 0)
        return 0
    return is_time ? theirs / ours : ours / theirs
}

function print_place(place,   base, cell, i, is_time, part)
{
    split(place, part, SUBSEP)
    base = place SUBSEP name[1]
    is_time = unit[place] == "us"
    for (i = 1; i <= names; i++) {
        cell = place SUBSEP name[i]
        if (!(cell in rounds))
            continue
        printf "{\"test\":\"%s\",\"size\":%d,\"ranks\":%d,\"contestant\":\"%s\",\"unit\":\"%s\"," \
            "\"best\":%.6f,\"median\":%.6f,\"ratio_best\":%.4f,\"ratio_median\":%.4f}\n",
            part[1], part[3], part[2], name[i], unit[place], best(cell, is_time), median(cell),
            base in rounds ? ratio(best(base, is_time), best(cell, is_time), is_time) : 0,
            base in rounds ? ratio(median(base), median(cell), is_time) : 0
    }
}

BEGIN { names = split(contestants, name, " ") }

{
    place = field("test") SUBSEP field("ranks") SUBSEP field("size")
    if (!(place in unit)) {
        order[++places] = place
        unit[place] = field("unit")
    }
    figures[place, $1] = figures[place, $1] " " field("median")
    rounds[place, $1]++
}

END {
    for (p = 1; p <= places; p++)
        print_place(order[p])
}
