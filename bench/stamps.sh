#!/usr/bin/env bash
# Measures how far times of frames are from the truth. Spate's stream client and net/http with a Scanner (bench/frames)
# run on core 0, the simulator on core 1, with 1,000 streams and a frame every 20 ms. Each round runs both clients in
# turn in six cases: streams spread evenly, all at once as batching engines send, all at once while one busy loop takes
# half of the client's core, and while three take three quarters of it, more than the client can spare; that also with
# TLS, and with HTTP/2. HTTP/2 has 250 streams and fifteen busy loops: Linux puts off what net/http sends to a thousand
# at once, by 0.6 ms at p99, also if the client has the whole core. Prints for each round the errors of the kernel's
# timestamps and of the program's clock, p50/p99/p99.9/max in us, and the simulator's CPU time per frame, and then their
# medians. The client "packets" is Spate's with packet times, for which root or CAP_BPF is needed. net/http has no
# timestamps: both of its errors are those of the program's clock.
#   bench/stamps.sh [ROUNDS [STREAMS [STEP_MS]]]      (after make build; loopback only; about 40 s a round)
# CLIENTS="stream" omits the other clients. OTHER names another spate program, whose simulator alternates with ours, to
# compare before and after.
set -euo pipefail
source "$(dirname "$0")/simulator.sh"
rounds=${1:-5} streams=${2:-1000} step=${3:-20} seconds=${SECONDS_EACH:-4}
clients=${CLIENTS:-stream packets nethttp}
simulators=("$bin/spate" ${OTHER:+"$OTHER"})
CGO_ENABLED=0 go build -C "$root" -o "$dir/frames" ./bench/frames

# compete N: starts N busy loops on core 0. Their process IDs are $rivals.
compete() {
    local i
    for ((i = 0; i < $1; i++)); do
        $PRIORITY taskset -c 0 bash -c 'while :; do :; done' & rivals+=($!)
    done
    pids+=("${rivals[@]}")
}

# measured CLIENT: prints the line of a client, with the CPU time that the simulator used per frame in its middle.
measured() {
    $PRIORITY taskset -c 0 "$dir/frames" --client "$1" --endpoint "$scheme${endpoint#http}" $http2 --streams "$streams" --warmup 1s --length "${seconds}s" >"$dir/line" & local client=$!
    sleep 2
    local from to
    from=$(simulator_use)
    sleep $((seconds - 2))
    to=$(simulator_use)
    wait "$client"
    awk -v use="$from $to" '{ split(use, u); split($4, frames, "="); split($3, seconds, "=")
        printf "%s simulator_us=%.2f\n", $0, (u[3] - u[1]) / (frames[2] / seconds[2] * (u[4] - u[2])) }' "$dir/line"
}

# simulator_use: prints the simulator's CPU time so far, in us, and the time of the reading, in s.
simulator_use() { awk -v hz="$(getconf CLK_TCK)" -v at="$(date +%s.%N)" '{ printf "%d %s", ($14 + $15) * 1e6 / hz, at }' "/proc/$simulator/stat"; }

# How the clients connect.
scheme=http http2=

# case_of NAME FLAGS...: runs the clients in turn against each simulator with these flags.
case_of() {
    local name=$1 client simulated rivals=()
    shift
    for simulated in "${simulators[@]}"; do
        serve_by "$simulated" --decode-step "${step}ms" --truth "$@"
        for client in $clients; do
            case $name in stolen) compete 1 ;; starved-http2) compete 15 ;; starved*) compete 3 ;; esac
            echo "case=$name simulator=$simulated round=$round $(measured "$client")" | tee -a "$dir/lines"
            [[ ${#rivals[@]} == 0 ]] || { kill "${rivals[@]}"; wait "${rivals[@]}" 2>/dev/null || true; rivals=(); }
        done
    done
}

# medians NAME SIMULATOR CLIENT: prints the medians over the rounds of p50, p99, p99.9 and the maximum.
medians() {
    local what at
    printf '%-13s %-8s' "$1" "$3"
    [[ ${#simulators[@]} == 1 ]] || printf ' %s' "$2"
    for what in stamp program; do
        printf '  %s' "$what"
        for at in 1 2 3 4; do
            printf ' %s' "$(sed -n "s|^case=$1 simulator=$2 .*client=$3 .* ${what}_us=\([0-9./]*\).*|\1|p" "$dir/lines" | cut -d/ -f "$at" | median)"
        done
    done
    echo "  simulator $(sed -n "s|^case=$1 simulator=$2 .*client=$3 .* simulator_us=\([0-9.]*\).*|\1|p" "$dir/lines" | median)"
}

for ((round = 1; round <= rounds; round++)); do
    case_of spread --spread-step
    case_of at-once
    case_of stolen
    case_of starved
    scheme=https case_of starved-tls --tls
    http2=--http2 case_of starved-http2 --http 2
done
echo "Medians of $rounds rounds, in us: errors' p50 p99 p99.9 max; the simulator's CPU a frame"
for name in spread at-once stolen starved starved-tls starved-http2; do
    for client in $clients; do
        for simulated in "${simulators[@]}"; do medians "$name" "$simulated" "$client"; done
    done
done
