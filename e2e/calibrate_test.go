//go:build linux

package e2e

import (
	"google.golang.org/protobuf/encoding/protojson"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"

	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// calibrating starts a calibration with its own copy of the program, so that its children can be told from all others.
func calibrating(t *testing.T, args ...string) (p *process.Process, children func() int) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "spate-calibrated")
	if err := os.Link(programs.Built.Spate, program); err != nil {
		t.Fatal(err)
	}
	p = process.Start(t, program, append([]string{"calibrate"}, args...)...)
	return p, func() int { return alive(t, program) }
}

// alive counts the processes of a program, except zombies.
func alive(t *testing.T, program string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range lines {
		if text, err := os.ReadFile(line); err == nil && strings.HasPrefix(string(text), program+"\x00") {
			n++
		}
	}
	return n
}

// awaitNone waits until no process of the program is left.
func awaitNone(t *testing.T, left func() int) {
	t.Helper()
	process.Eventually(t, "no process is left", func() bool { return left() == 0 })
}

// calibratedLoad is a row of the table that a calibration prints.
var calibratedLoad = regexp.MustCompile(`(?m)^ *\d+ (?:streams|starts/s) +[\d,]+ +\d\.\d\d/1 .* (yes|no)$`)

// A calibration measures everything that it is asked for, keeps the limits that were safe, and leaves nothing behind.
// On a machine that is too busy to be exact even at these loads, it says so and keeps nothing.
func TestCalibrateKeepsWhatIsSafe(t *testing.T) {
	t.Parallel()
	p, left := calibrating(t, "--quick", "--streams", "4,8", "--starts", "40",
		"--out", "kept/capacity.json")
	code := p.Exit()
	if n := left(); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	loads, safe := calibratedLoad.FindAllStringSubmatch(p.Stdout.String(), -1), 0
	if len(loads) != 3 {
		t.Fatalf("%d loads were measured, want 3", len(loads))
	}
	for _, l := range loads {
		if l[1] == "yes" {
			safe++
		}
	}
	kept := filepath.Join(p.Dir, "kept", "capacity.json")
	switch {
	case code == 0:
		var c struct {
			Streams int     `json:"streams"`
			Frames  float64 `json:"frames_per_second"`
			Starts  float64 `json:"starts_per_second"`
			Machine struct{ Host string }
		}
		readInto(t, kept, &c)
		if c.Streams+int(c.Starts) == 0 || c.Machine.Host == "" {
			t.Errorf("kept %+v", c)
		}
	case code == 3 && safe < len(loads):
		if _, err := os.Stat(kept); err == nil {
			t.Error("a limit was kept, and none was safe")
		}
	default:
		t.Errorf("exit code %d, %d of %d loads were safe", code, safe, len(loads))
	}
}

func readInto(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Ctrl-C in a terminal reaches all processes at once; kill reaches only one.
func TestCalibrateLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"Ctrl-C": {syscall.SIGINT, 4}, "SIGTERM": {syscall.SIGTERM, 4}, "kill -9": {syscall.SIGKILL, -1}} {
		p, left := calibrating(t, "--streams", "4,8", "--duration", "1m", "--out", "capacity.json")
		process.Eventually(t, name+": there are two processes", func() bool { return left() == 2 })
		p.Signal(end.signal)
		if code := p.Exit(); code != end.code {
			t.Errorf("%s: exit code %d, want %d", name, code, end.code)
		}
		awaitNone(t, left)
		if _, err := os.Stat(filepath.Join(p.Dir, "capacity.json")); err == nil {
			t.Errorf("%s: a limit was kept", name)
		}
	}
}

// A kept capacity reaches the list of agents if it is from this machine.
func TestAgentTellsItsCapacity(t *testing.T) {
	t.Parallel()
	p, _ := calibrating(t, "--streams", "2,4", "--duration", "500ms", "--out", "capacity.json")
	if code := p.Exit(); code != 0 {
		t.Skipf("this machine is too busy to be exact at 2 streams: exit code %d", code)
	}
	coordinator := process.Start(t, programs.Built.Coordinator, "--listen", "127.0.0.1:0", "--no-gossip")
	address := coordinator.Await(`address=(127\.0\.0\.1:\d+)`)[1]
	agent := process.Start(t, programs.Built.Agent, "--coordinator", address, "--name", "one", "--capacity",
		filepath.Join(p.Dir, "capacity.json"))
	agent.Await(`this machine was exact in calibration`)
	var listed spatev1.ListAgentsResponse
	process.Eventually(t, "the agent is listed", func() bool {
		list := process.Start(t, programs.Built.Spate, "agents", "--coordinator", address, "--output", "json")
		if list.Exit() == 0 {
			if err := protojson.Unmarshal([]byte(list.Stdout.String()), &listed); err != nil {
				t.Fatal(err)
			}
		}
		return len(listed.GetAgents()) > 0
	})
	a := listed.GetAgents()[0].GetAgent()
	if c := a.GetCapacity(); c.GetStreams() < 2 || c.GetStartsPerSecond() > 0 || a.GetWeightGiven() {
		t.Errorf("%v", a)
	}
}
