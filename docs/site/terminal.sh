#!/usr/bin/env bash
# Draws the pictures of the full screen into docs/images, from a run on the built-in simulator: some 40 seconds.
# Usage: docs/site/terminal.sh, in the repository, after make build. Needs tmux, Python 3 and Chromium ($CHROMIUM).
set -euo pipefail
chromium=${CHROMIUM:-/usr/bin/chromium}
root=$PWD
work=$(mktemp -d)
server() { tmux -S "$work/tmux" "$@"; }
trap 'server kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

cat >"$work/plan.yaml" <<'PLAN'
name: chat
targets: [{name: vllm, simulator: {endpoints: 2}}]
workloads: [{random: {isl: 300, osl: 60}}]
loads: [{concurrency: [8], duration: 8s}, {rate: [12, 20], duration: 60s}]
PLAN

# The same run on both sizes. A number of rows and columns more than 24 x 80 has to be read by eye, so the larger font.
server new-session -d -x 80 -y 24 "cd '$work' && env -u CI TERM=screen-256color '$root/bin/spate' run plan.yaml --agents eu=2,us=2 --live"
shot() { # COLUMNS ROWS
  server resize-window -x "$1" -y "$2"
  sleep 3 # a window later
  server capture-pane -e -p | python3 docs/site/terminal.py "$1" >"$work/page.html"
  "$chromium" --headless --no-sandbox --hide-scrollbars --force-device-scale-factor=1 \
    --window-size="$(($1 * 963 / 100 + 28)),$(($2 * 19 + 24))" --screenshot="docs/images/terminal-$1.png" "file://$work/page.html" 2>/dev/null
}
sleep 33
shot 80 24
server send-keys 3
shot 200 50
server send-keys s c # ends the run, and with it the server
