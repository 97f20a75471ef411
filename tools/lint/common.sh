# SPDX-License-Identifier: BSD-3-Clause
#
# Shared by the lint scripts (sourced): the top of the tree, the fault counter and the lists of
# files. A script calls fault for each finding and ends with verdict.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top_srcdir" || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
: >"$scratch/faults"

fault()
{
    printf '%s\n' "$*" >>"$scratch/faults"
}

# Take each line of standard input as a fault.
faults()
{
    cat >>"$scratch/faults"
}

verdict()
{
    if [ -s "$scratch/faults" ]; then
        sed "s|^|$(basename "$0"): |" "$scratch/faults" >&2
        exit 1
    fi
    exit 0
}

# Our C files under the named folders, one a line.
c_files()
{
    for folder in "$@"; do
        [ -d "$folder" ] && find "$folder" -name '*.[ch]' -type f
    done | sort
}

# Write the C files named on standard input to $scratch/code, under the same names, with comments
# and the insides of string and character literals blanked and line numbers kept.
strip_c()
{
    sort >"$scratch/list"
    sed "s|^|$scratch/code/|; s|/[^/]*\$||" "$scratch/list" | sort -u | xargs -r mkdir -p
    xargs -r awk -v into="$scratch/code/" '
    FNR == 1 { in_comment = 0; if (copy != "") close(copy); copy = into FILENAME }
    {
        out = ""; quote = ""; n = length($0); i = 1
        while (i <= n) {
            c = substr($0, i, 1); two = substr($0, i, 2)
            if (in_comment) {
                if (two == "*/") { in_comment = 0; i += 2 } else i++
            } else if (quote != "") {
                if (c == "\\") i += 2
                else { if (c == quote) { out = out c; quote = "" } i++ }
            } else if (two == "/*") { in_comment = 1; i += 2 }
            else { if (c == "\"" || c == "\047") quote = c; out = out c; i++ }
        }
        print out > copy
    }' <"$scratch/list"
}
