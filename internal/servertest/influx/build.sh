#!/usr/bin/env bash
# build.sh VERSION WORKDIR PROGRAM: builds InfluxDB 2 without its UI. It needs Go, Rust with cargo, a C compiler and
# pkg-config, the Go module proxy and crates.io, and takes about 10 minutes on two cores.
#
# Flux, InfluxDB's query language, is a Rust library. This script builds it, instead of the build's own pkg-config
# wrapper: the wrapper would spend half an hour on link-time optimization, and newer compilers have warnings that it
# treats as errors.
set -euo pipefail
version=$1 work=$2 program=$3
for tool in go cargo cc pkg-config; do
    command -v $tool >/dev/null || { echo "InfluxDB 2 cannot be built here: there is no $tool. The tests against InfluxDB 1.8 need Go alone." >&2; exit 1; }
done
mkdir -p "$work"
cd "$work"
# module copies the source of a Go module into a folder.
module() {
    rm -rf "$2"
    cp -r "$(go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')" "$2"
    chmod -R u+w "$2"
}
module "github.com/influxdata/influxdb/v2@$version" influxdb
flux=$(sed -n 's/^\tgithub.com\/influxdata\/flux //p' influxdb/go.mod)
module "github.com/influxdata/flux@$flux" flux
export RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-stable} RUSTFLAGS="--cap-lints allow -Cdebuginfo=0"
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
export CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_CODEGEN_UNITS=16
(cd flux/libflux && cargo rustc --release --locked -j2 -p flux --lib --crate-type staticlib)
cat >flux.pc <<PC
Name: Flux
Version: ${flux#v}
Description: Library for the InfluxData Flux engine
Libs: -L$PWD/flux/libflux/target/release -lflux -ldl -lm -lpthread
Cflags: -I$PWD/flux/libflux/include
PC
export PKG_CONFIG=pkg-config PKG_CONFIG_PATH=$PWD CGO_ENABLED=1 GOTOOLCHAIN=local GOFLAGS=
(cd influxdb && go build -p 2 -tags sqlite_foreign_keys,sqlite_json -ldflags "-s -w -X main.version=$version" -o "$program" ./cmd/influxd)
"$program" version
