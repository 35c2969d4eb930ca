#!/usr/bin/env bash
# Looks for the words of list.tsv in code, docs, messages and the names of tests, for folders with too many files of Go, and
# for a long list of changes: `make lint` runs
# it, from the root of the repository.
set -euo pipefail
found=0
# Names of tests as words: "internal/x_test.go: test a log stops nothing".
names=$(git grep -oE '^func (Test|Fuzz|Benchmark)[A-Za-z0-9]+' -- '*_test.go' |
    sed -E 's/:func /: /; :a s/(: .*[a-z0-9])([A-Z])/\1 \2/; ta; s/([A-Z])([A-Z][a-z])/\1 \2/g')
while IFS=$'\t' read -r pattern instead; do
    case $pattern in '' | '#'*) continue ;; esac
    if git grep -nPi "$pattern" -- '*.go' '*.md' '*.proto' '*.sh' '*.yaml' '*.yml' '*.tpl' Makefile 'internal/cli/*/help.txt' \
        ':!*.pb.go' ':!docs/style.md' ':!docs/glossary.md' ':!docs/words' ':!**/testdata' ':!simulator/http_test.go'; then
        echo "  ^ write instead: $instead"
        found=1
    fi
    if grep -Pi ": .*$pattern" <<<"$names"; then
        echo "  ^ write in the test's name instead: $instead"
        found=1
    fi
done <docs/words/list.tsv
[ $found -eq 0 ] || { echo 'docs/style.md has the rules, docs/words/list.tsv the words.' >&2; exit 1; }
full=$(git ls-files '*.go' | grep -v '_test\.go$' | xargs dirname | sort | uniq -c | awk '$1 > 35 {print "  " $2 ": " $1}')
[ -z "$full" ] || { printf 'More than 35 source files of Go are in one folder: make a package of what belongs together.\n%s\n' "$full" >&2; exit 1; }
news=$(sed -n '/^## \[Unreleased\]/,/^## \[[0-9]/p' CHANGELOG.md | wc -w)
[ "$news" -le 1000 ] || { echo "CHANGELOG.md has $news words under [Unreleased], more than 1,000: lines of each area, not of each change (a merge may have brought an old list back)." >&2; exit 1; }
