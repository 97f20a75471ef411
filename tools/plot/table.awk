# SPDX-License-Identifier: BSD-3-Clause
#
# tools/compare: cells (of cells.awk) as tables and a summary. Variables: contestants, as there;
# form, "text" or "markdown". In each table a contestant has its best and its median and, but for
# the first, the ratios of both; a contestant without a result has dashes and counts as missing.

function field(name,   text)
{
    if (!match($0, "\"" name "\":"))
        return ""
    text = substr($0, RSTART + RLENGTH)
    sub(/[,}].*/, "", text)
    gsub(/"/, "", text)
    return text
}

# Four significant places, whatever the unit.
function figure(x)
{
    if (x >= 1000)
        return sprintf("%d", x + 0.5)
    return sprintf((x >= 100 ? "%.1f" : (x >= 10 ? "%.2f" : (x >= 1 ? "%.3f" : "%.4f"))), x)
}

# Columns of one contestant at one place; what is missing is counted here, once a cell.
function columns(place, i,   cell, text)
{
    cell = place SUBSEP name[i]
    if (!(cell in best)) {
        text = i == 1 ? "- -" : "- - - -"
        missing[i]++
        return text
    }
    text = figure(best[cell]) " " figure(median[cell])
    if (i > 1)
        text = text sprintf(" %.2f %.2f", ratio_best[cell], ratio_median[cell])
    return text
}

function right(text, width)
{
    while (length(text) < width)
        text = " " text
    return text
}

function judge(place, i,   cell)
{
    cell = place SUBSEP name[i]
    if (!(cell in best))
        return
    cells[i]++
    ahead_best[i] += ratio_best[cell] >= 1
    ahead_median[i] += ratio_median[cell] >= 1
    if (!(i in worst) || ratio_median[cell] < worst[i]) {
        worst[i] = ratio_median[cell]
        worst_at[i] = place
    }
}

function print_columns(first, all,   c, i, n, part, text)
{
    if (form == "markdown") {
        text = "| " first
        for (i = 1; i <= names; i++) {
            n = split(all[i], part, " ")
            for (c = 1; c <= n; c++)
                text = text " | " part[c]
        }
        print text " |"
        return
    }
    printf "%-9s", first
    for (i = 1; i <= names; i++) {
        n = split(all[i], part, " ")
        for (c = 1; c <= n; c++)
            printf "%s", right(part[c], c > 2 ? 8 : 10)
        printf "%s", i < names ? "  |" : "\n"
    }
}

function print_head(place,   all, i, part, text)
{
    split(place, part, SUBSEP)
    text = part[1] ", " part[2] " rank" (part[2] > 1 ? "s" : "") ", " unit[place]
    if (form == "markdown") {
        print "\n### " text "\n"
        for (i = 1; i <= names; i++)
            all[i] = name[i] "&nbsp;best median" (i > 1 ? " ratio ratio" : "")
        print_columns("size", all)
        for (i = 1; i <= names; i++)
            all[i] = i > 1 ? "---: ---: ---: ---:" : "---: ---:"
        print_columns("---:", all)
        return
    }
    print "\n# " text
    printf "%-9s", "#"
    for (i = 1; i <= names; i++) {
        printf "%s", right(name[i], i > 1 ? 36 : 20)
        printf "%s", i < names ? "  |" : "\n"
    }
    for (i = 1; i <= names; i++)
        all[i] = "best median" (i > 1 ? " r.best r.med" : "")
    print_columns("# Size", all)
}

function describe(place,   part)
{
    split(place, part, SUBSEP)
    return part[1] " of " part[3] " bytes, " part[2] " ranks"
}

function print_summary(   all, b, i, m, miss, low)
{
    for (i = 2; i <= names; i++) {
        all += cells[i]
        b += ahead_best[i]
        m += ahead_median[i]
        miss += missing[i]
        if ((i in worst) && (!low || worst[i] < worst[low]))
            low = i
    }
    print form == "markdown" ? "\n### Summary\n" : "\n# Summary"
    printf "%s is ahead in %d of %d cells by the median of rounds, in %d by the best round", name[1],
        m, all, b
    print miss ? "; " miss " cells are missing" : ""
    if (low)
        printf "worst cell: %.3f, %s, against %s\n", worst[low], describe(worst_at[low]), name[low]
    if (form == "markdown")
        print ""
    for (i = 2; i <= names; i++) {
        printf "%s ", form == "markdown" ? "- against " name[i] ":" : "against " name[i] ":"
        printf "ahead in %d of %d by median, %d by best", ahead_median[i], cells[i], ahead_best[i]
        if (i in worst)
            printf "; worst %.3f, %s", worst[i], describe(worst_at[i])
        print missing[i] ? "; " missing[i] " missing" : ""
    }
}

BEGIN { names = split(contestants, name, " ") }

{
    place = field("test") SUBSEP field("ranks") SUBSEP field("size")
    if (!(place in unit)) {
        order[++places] = place
        unit[place] = field("unit")
    }
    cell = place SUBSEP field("contestant")
    best[cell] = field("best") + 0
    median[cell] = field("median") + 0
    ratio_best[cell] = field("ratio_best") + 0
    ratio_median[cell] = field("ratio_median") + 0
}

END {
    for (p = 1; p <= places; p++) {
        split(order[p], part, SUBSEP)
        if (part[1] SUBSEP part[2] != table) {
            table = part[1] SUBSEP part[2]
            print_head(order[p])
        }
        for (i = 1; i <= names; i++) {
            line[i] = columns(order[p], i)
            if (i > 1)
                judge(order[p], i)
        }
        print_columns(part[3], line)
    }
    print_summary()
}
