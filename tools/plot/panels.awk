# SPDX-License-Identifier: BSD-3-Clause
#
# tools/compare: cells (of cells.awk) as one SVG of small panels, one for each test and number of
# ranks: a curve of medians for each contestant, both axes logarithmic; bars where a test has a
# single size. Variable contestants, as there; one named NAME+libc has NAME's colour, dashed.

function field(name,   text)
{
    if (!match($0, "\"" name "\":"))
        return ""
    text = substr($0, RSTART + RLENGTH)
    sub(/[,}].*/, "", text)
    gsub(/"/, "", text)
    return text
}

function size_name(n)
{
    if (n >= 1048576)
        return n / 1048576 "M"
    return n >= 1024 ? n / 1024 "K" : n ""
}

function figure(x)
{
    if (x >= 1000)
        return sprintf("%d", x + 0.5)
    return sprintf((x >= 100 ? "%.0f" : (x >= 10 ? "%.1f" : (x >= 1 ? "%.2f" : "%.3f"))), x)
}

function words(x, y, class, text) { printf "<text x=\"%.0f\" y=\"%.0f\"%s>%s</text>\n", x, y, class, text }

# Scale of the panel under way: sizes left to right, figures bottom to top.
function place_x(size) { return left + width * (log(size) - x_low) / (x_high - x_low) }
function place_y(y) { return top + height - height * (log(y) - y_low) / (y_high - y_low) }

function find_scale(panel,   i, n, s, list, value)
{
    n = split(sizes[panel], list, " ")
    x_low = log(list[1])
    x_high = log(list[n])
    y_low = 1e9
    y_high = -1e9
    for (s = 1; s <= n; s++)
        for (i = 1; i <= names; i++)
            if ((panel, list[s], name[i]) in median) {
                value = log(median[panel, list[s], name[i]])
                y_low = value < y_low ? value : y_low
                y_high = value > y_high ? value : y_high
            }
    if (y_high - y_low < 0.1)
        y_high = y_low + 0.1
}

function draw_axes(panel,   decade, last, list, n, s, step)
{
    printf "<path class=\"grid\" d=\""
    last = int(y_high / log(10) + 100) - 100
    for (decade = int(y_low / log(10) + 100) - 99; decade <= last; decade++)
        printf "M%d %.1fh%d", left, place_y(exp(decade * log(10))), width
    printf "\"/>\n<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n", left, top, height, width
    for (decade = int(y_low / log(10) + 100) - 99; decade <= last; decade++)
        words(left - 4, place_y(exp(decade * log(10))) + 4, " class=\"e\"", sprintf("%g", 10 ^ decade))
    n = split(sizes[panel], list, " ")
    step = int((n + 3) / 4)
    for (s = 1; s <= n; s += step)
        words(place_x(list[s]), top + height + 14, " class=\"m\"", size_name(list[s]))
}

function draw_curves(panel,   i, list, n, s, started)
{
    find_scale(panel)
    draw_axes(panel)
    n = split(sizes[panel], list, " ")
    for (i = names; i >= 1; i--) {
        started = 0
        for (s = 1; s <= n; s++) {
            if (!((panel, list[s], name[i]) in median))
                continue
            printf "%s%.1f %.1f", started ? " " : "<path class=\"c" i "\" d=\"M",
                place_x(list[s]), place_y(median[panel, list[s], name[i]])
            started = 1
        }
        if (started)
            print "\"/>"
    }
}

function draw_bars(panel,   i, most, place, size, value, y)
{
    size = sizes[panel] + 0
    for (i = 1; i <= names; i++)
        if (median[panel, size, name[i]] > most)
            most = median[panel, size, name[i]]
    for (i = 1; i <= names; i++) {
        if (!((panel, size, name[i]) in median) || median[panel, size, name[i]] <= 0)
            continue
        value = median[panel, size, name[i]]
        y = top + (i - 0.5) * height / names
        place = left + 0.8 * width * value / most
        printf "<path class=\"c%d b\" d=\"M%d %.1fH%.1f\"/>\n", i, left, y, place
        words(place + 5, y + 4, "", figure(value))
    }
    printf "<path class=\"axis\" d=\"M%d %dv%d\"/>\n", left, top, height
}

function draw_panel(p,   panel, part)
{
    panel = order[p]
    split(panel, part, SUBSEP)
    left = (p - 1) % columns * panel_width + 48
    top = int((p - 1) / columns) * panel_height + 62
    words(left, top - 8, " class=\"t\"", part[1] ", " part[2] " ranks (" unit[panel] ")")
    if (split(sizes[panel], part, " ") > 1)
        draw_curves(panel)
    else
        draw_bars(panel)
}

function draw_key(   i, x)
{
    x = 48
    for (i = 1; i <= names; i++) {
        printf "<path class=\"c%d\" d=\"M%d 20h24\"/>\n", i, x
        words(x + 30, 24, "", name[i])
        x += 60 + 8 * length(name[i])
    }
}

function print_styles(   base, i, colours, known, n, palette)
{
    n = split("#1a5fb4 #c64600 #26a269 #813d9c #a51d2d", palette, " ")
    print "<style>text{font:12px sans-serif;fill:#333}.t{font-weight:bold}.e{text-anchor:end}" \
        ".m{text-anchor:middle}path{fill:none}.grid{stroke:#ddd}.axis{stroke:#555}"
    for (i = 1; i <= names; i++) {
        base = name[i]
        sub(/\+libc$/, "", base)
        if (!(base in known))
            known[base] = palette[colours++ % n + 1]
        printf ".c%d{stroke:%s;stroke-width:%s}\n", i, known[base],
            base == name[i] ? (i == 1 ? "2.4" : "1.6") : "1.1;stroke-dasharray:4 3"
    }
    print ".b{stroke-width:12;stroke-dasharray:none}</style>"
}

BEGIN {
    names = split(contestants, name, " ")
    panel_width = 310
    panel_height = 220
    width = 240
    height = 150
}

{
    panel = field("test") SUBSEP field("ranks")
    size = field("size")
    if (!(panel in unit)) {
        order[++panels] = panel
        unit[panel] = field("unit")
    }
    if (!((panel, size) in seen)) {
        seen[panel, size] = 1
        sizes[panel] = sizes[panel] " " size
    }
    median[panel, size, field("contestant")] = field("median") + 0
}

END {
    columns = panels < 4 ? panels : 4
    if (columns < 2)
        columns = 2
    all_width = columns * panel_width
    all_height = int((panels + columns - 1) / columns) * panel_height + 40
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n", all_width, all_height
    print_styles()
    printf "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", all_width, all_height
    draw_key()
    for (p = 1; p <= panels; p++)
        draw_panel(p)
    print "</svg>"
}
