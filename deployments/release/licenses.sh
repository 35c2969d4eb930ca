#!/usr/bin/env bash
# Copies the licences of all modules that the programs contain on any system: licenses.sh OUT_DIR. It fails if a module
# has none.
set -euo pipefail
out=$1
rm -rf "$out" && mkdir -p "$out"
for system in linux darwin windows; do
    GOOS=$system go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}' ./cmd/...
done | sort -u |
while read -r path dir; do
    found=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'patents*' \))
    if [ -z "$found" ]; then
        echo "$path has no licence in $dir" >&2
        exit 1
    fi
    mkdir -p "$out/$path"
    while read -r file; do install -m 644 "$file" "$out/$path/"; done <<<"$found"
done
install -m 644 "$(go env GOROOT)/LICENSE" "$out/go.txt"
