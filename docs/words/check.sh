#!/usr/bin/env bash
# Looks for the words of list.tsv in code, docs and messages: `make lint` runs it, from the root of the repository.
set -euo pipefail
found=0
while IFS=$'\t' read -r pattern instead; do
    case $pattern in '' | '#'*) continue ;; esac
    if git grep -nPi "$pattern" -- '*.go' '*.md' '*.proto' '*.sh' '*.yaml' '*.yml' '*.tpl' Makefile \
        ':!*.pb.go' ':!docs/style.md' ':!docs/glossary.md' ':!docs/words' ':!**/testdata' ':!simulator/http_test.go'; then
        echo "  ^ write instead: $instead"
        found=1
    fi
done <docs/words/list.tsv
[ $found -eq 0 ] || { echo 'docs/style.md has the rules, docs/words/list.tsv the words.' >&2; exit 1; }
