package agentcmd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/plans/naming"
)

// TestFoundCoordinatorsAreChecked: whatever address gossip names, the agent dials no address beyond loopback in
// plaintext without permission.
func TestFoundCoordinatorsAreChecked(t *testing.T) {
	known := []string{"127.0.0.1:1", "10.0.0.1:1", "[::1]:1"}
	found := func(context.Context) ([]string, error) { return known, nil }
	careful := command.InTurn(found, (&flags{}).checkPlain)
	trusting := command.InTurn(found, (&flags{Plaintext: true}).checkPlain)
	for i, want := range []bool{true, false, true, true} {
		address, err := careful(t.Context())
		if (err == nil) != want || address != known[i%3] {
			t.Errorf("call %d: %s, %v", i, address, err)
		}
		if err != nil && !strings.Contains(err.Error(),
			"10.0.0.1:1 would be unencrypted: give --tls-ca, --tls-cert and --tls-key, or --insecure-plaintext") {
			t.Errorf("unclear: %v", err)
		}
		if _, err := trusting(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedCapacity: a capacity that cannot be read keeps no agent from starting, even if it was named.
func TestDamagedCapacity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capacity.json")
	if err := os.WriteFile(path, []byte(`{"streams": "many"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	got, err := (&flags{Capacity: path}).exact("v1", slog.New(slog.NewTextHandler(&log, nil)))
	if _, aside := os.Stat(path + ".damaged"); got != nil || errors.Join(err, aside) != nil ||
		!strings.Contains(log.String(), "run spate calibrate again") {
		t.Errorf("%v, %v, %v: %s", got, err, aside, log.String())
	}
}

// TestDefaultName: every host has a default name that coordinators take, and that shows which host it is.
func TestDefaultName(t *testing.T) {
	for host, want := range map[string]string{
		"gpu-7": "gpu-7-", "gpu-7.rack.example": "gpu-7-", "gpu_7": "gpu_7-", "": "agent-", ".": "agent-", "_-": "agent-",
		"_gpu": "gpu-", "größe 7": "gr-e-7-", strings.Repeat("x", 64): strings.Repeat("x", 57) + "-",
	} {
		name := defaultName(host)
		if err := naming.CheckName(name); err != nil || name[:len(name)-6] != want || name == defaultName(host) {
			t.Errorf("host %q: %s, %v: want %s and a random end", host, name, err, want)
		}
	}
}

// An agent ends when it has been alone for its time, or when a line comes in; the end of the input is none.
func TestAwaitAlone(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		stats func(after time.Duration) agent.Stats
		want  time.Duration
	}{
		"alone":            {"", func(time.Duration) agent.Stats { return agent.Stats{} }, 10 * time.Second},
		"a line":           {"end\n", func(time.Duration) agent.Stats { return agent.Stats{Connected: true} }, 0},
		"connected for 1m": {"", func(d time.Duration) agent.Stats { return agent.Stats{Connected: d <= time.Minute} }, 70 * time.Second},
		"requests for 30s": {"", func(d time.Duration) agent.Stats {
			if d <= 30*time.Second {
				return agent.Stats{InFlight: 1}
			}
			return agent.Stats{}
		}, 40 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			stats := func() agent.Stats { return c.stats(time.Since(start)) }
			awaitAlone(t.Context(), 10*time.Second, strings.NewReader(c.input), stats)
			if got := time.Since(start); got != c.want {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		})
	}
}
