package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// fakeSSH runs the command on this machine, and gives it the socket here in place of the one at the other end.
// e2e/failures has real servers, and connections that break.
const fakeSSH = `#!/bin/sh
while [ "$1" != "--" ]; do
	if [ "$1" = "-R" ]; then from=${2%%:*} to=${2#*:}; fi
	shift
done
command=$3
case $2 in
absent) echo "ssh: Could not resolve hostname absent" >&2; exit 255 ;;
other) printf 'Welcome\nok\n'; command=$(printf '%s' "$command" | sed 's/uname -sm/echo Plan9 mips/') ;;
closed) echo "This account is not available."; exit 1 ;;
refuses) if [ -n "$from" ]; then echo "Error: remote port forwarding failed" >&2; exit 255; fi ;;
ends) command=$(printf '%s' "$command" | sed 's/"agent"/"agent" "--no-such-flag"/') ;;
cut | slow)
	export XDG_CACHE_HOME="$TMPDIR/elsewhere"
	case $command in *"cat >"*) [ $2 = cut ] || exec sleep 100; head -c 100000 | eval "$command"; exit ;; esac ;;
esac
[ -z "$from" ] || command=$(printf '%s' "$command" | sed "s|$from|$to|g")
eval "$command"
`

// withSSH puts the stand-in into PATH, and returns the home of all hosts.
func withSSH(t *testing.T) (dir string) {
	t.Helper()
	inPath(t, "ssh", fakeSSH)
	dir = t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

// inPath puts a program into PATH.
func inPath(t *testing.T, name, script string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// TestCalibrateOnHosts: what a host logs, and a row for each host, also for one that fails. This machine may be too
// busy for any load.
func TestCalibrateOnHosts(t *testing.T) {
	p := process.StartIn(t, withSSH(t), programs.Built.Spate, "calibrate", "--on", "eu=a@one,absent", "--streams", "20,30",
		"--duration", "500ms")
	p.MustExit(3)
	for _, want := range []string{`(?m)^a@one +eu +((at least )?\d+ streams, [\d,]+ frames/s|no load was safe.*)$`,
		`(?m)^a@one: Calibrating: the agent has \d`, `(?m)^a@one: +30 streams  [\d,]+/s, error p99 `,
		"absent +eu +ssh: Could not resolve", `spate: \d hosts? not calibrated`} {
		if said := p.Printed(); !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("%s is missing in\n%s", want, said)
		}
	}
}

// TestOnHosts: --on copies the program once, shows the hosts, starts an agent on each, and leaves nothing else.
func TestOnHosts(t *testing.T) {
	dir := withSSH(t)
	url := programs.Simulate(t, 1).URLs[0]
	run := func(code int, args ...string) string {
		p := process.StartIn(t, dir, programs.Built.Spate, append([]string{"run"}, args...)...)
		p.MustExit(code)
		return p.Printed()
	}
	short := []string{"--target", url, "--concurrency", "3", "--requests", "12", "--isl", "20", "--osl", "5"}
	said := run(0, append(short, "--on", "eu=a@one,two", "--on", "us=b@one", "--out", "first")...)
	for _, want := range []string{"Copying the program to ", `one +eu +ready .* ±\S+ .* a@one +(copied|is there) +\d+\.\d+ ms`, `one-2 +us .* b@one `,
		`two +eu .* two `, "12 done"} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	if said := run(0, append(short, "--on", "two", "--out", "second")...); strings.Contains(said, "Copying") ||
		!strings.Contains(said, "is there") {
		t.Errorf("the program was copied again:\n%s", said)
	}
	cache, err := os.ReadDir(filepath.Join(dir, ".cache", "spate"))
	if len(cache) != 2 || err != nil { // the program, and datasets
		t.Errorf("left behind: %v, %v", cache, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts.yaml"), []byte("- {ssh: one, region: eu, labels: {pool: big}, weight: 3}\n- ssh: two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := run(0, append(short, "--on", "hosts.yaml", "--out", "third")...); !regexp.MustCompile(`one +eu +ready +3 .* pool=big `).MatchString(said) {
		t.Errorf("of a file of hosts it says\n%s", said)
	}
	for want, args := range map[string][]string{
		"spate: --on absent: ssh: Could not resolve hostname absent\n": {"--on", "absent"},
		"--on other: the host is Plan9 mips and this program is for ":  {"--on", "other"},
		"--on closed: This account is not available.":                  {"--on", "closed"},
		"--on refuses: the agent has ended: Error: remote port forw":   {"--on", "refuses"},
		"--on ends: the agent has ended: ":                             {"--on", "two,ends"},
		"--on cut: ":                                                   {"--on", "cut"},
		`"x y" is not a host: want [REGION=][USER@]HOST`:               {"--on", "x y"},
		"--agents and --on exclude one another":                        {"--on", "one", "--agents", "2"},
	} {
		if said := run(2, append(short, args...)...); !strings.Contains(said, want) {
			t.Errorf("%q: want %q, got\n%s", args, want, said)
		}
	}
	if said := run(2, "quickstart", "--on", "one"); !strings.Contains(said, "which the hosts of --on do not reach") {
		t.Error(said)
	}
	for asks, code := range map[string]int{"agents: {count: 1, labels: {pool: big}}": 0, "regions: {eu: 1, us: 2}": 2} {
		text := "name: asks\ntargets: [{name: t, endpoints: ['" + url + "']}]\nworkloads: [{random: {isl: 9, osl: 3}}]\n" +
			"loads: [{concurrency: 1, requests: 3}]\n" + asks + "\n"
		if err := os.WriteFile(filepath.Join(dir, "asks.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		said := run(code, "asks.yaml", "--on", "one")
		if code == 2 && !strings.Contains(said, "the agents of --on (1) are not those of the plan (eu=1,us=1)") {
			t.Error(said)
		}
	}
	p := process.StartIn(t, dir, programs.Built.Spate, append([]string{"run", "--on", "two,slow"}, short...)...)
	p.Await("Copying the program to slow")
	p.Signal(syscall.SIGINT)
	p.MustExit(4)
	left, _ := filepath.Glob(filepath.Join(dir, "spate-on-*"))
	if cut, _ := filepath.Glob(filepath.Join(dir, "elsewhere", "spate", "*")); len(left)+len(cut) > 0 {
		t.Errorf("left behind: %v, %v", left, cut)
	}
}
