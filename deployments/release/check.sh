#!/usr/bin/env bash
# Makes a release without publishing it, and checks what is in it: check.sh BIN, with goreleaser and cyclonedx-gomod in
# BIN. The image is not built: that needs Docker and a registry.
set -euo pipefail
bin=$(realpath "$1")
export PATH=$bin:$PATH
goreleaser check --quiet
goreleaser release --snapshot --clean --skip=docker,publish

cd dist
sha256sum --quiet --check spate_*_checksums.txt
[ "$(ls spate_*.tar.gz | wc -l)" = 4 ] && [ "$(ls spate_*.zip | wc -l)" = 1 ] || { echo 'Archives are missing.' >&2; exit 1; }

# wants fails if a listing lacks one of the paths.
wants() {
    local what=$1 list=$2 path
    shift 2
    for path; do
        grep -q "$path" <<<"$list" || { echo "$what lacks $path" >&2; exit 1; }
    done
}
archive=$(ls spate_*_linux_"$(go env GOARCH)".tar.gz)
wants "$archive" "$(tar -tzf "$archive")" /spate$ /spate-agent$ /spate-coordinator$ /LICENSE$ /licenses/google.golang.org/grpc/LICENSE$ /plans/quickstart.yaml$
rm -rf unpacked && mkdir unpacked && tar -xzf "$archive" -C unpacked --strip-components 1
version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' metadata.json)
for program in spate spate-agent spate-coordinator; do
    unpacked/$program --version | grep -qF "$version" || { echo "$program --version is not $version" >&2; exit 1; }
done
unpacked/spate plan validate unpacked/plans/quickstart.yaml
if command -v dpkg-deb >/dev/null; then
    deb=$(ls spate_*_"$(go env GOARCH)".deb)
    wants "$deb" "$(dpkg-deb -c "$deb")" /usr/bin/spate$ /lib/systemd/system/spate-agent@.service$ /usr/share/doc/spate/licenses/google.golang.org/grpc/LICENSE$
else
    echo 'No dpkg-deb here: the packages are not looked into.' >&2
fi
grep -q '"id": "Apache-2.0"' spate_*_linux_amd64.cdx.json || { echo 'The bill of materials has no licences.' >&2; exit 1; }
wants 'the cask' "$(cat homebrew/Casks/spate.rb)" _darwin_arm64.tar.gz _linux_amd64.tar.gz
echo "The release $version is complete: $(ls | grep -cE '\.(tar\.gz|zip|deb|rpm)$') archives and packages."
