package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/coordinator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPlay runs a few agents of two regions, with rows, against a coordinator in this process. The coordinator accepts
// everything they send, up to the last totals.
func TestPlay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := coordinator.New(coordinator.Config{DataDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- c.Serve(l) }()
	status := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "spate_coordinator_snapshots_total %d\n", c.Stats().Snapshots)
	}))
	defer func() {
		status.Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	r, err := play(t.Context(), settings{
		coordinator: l.Addr().String(), status: strings.TrimPrefix(status.URL, "http://"), pid: os.Getpid(),
		dataDir: dir,
		agents:  3, regions: 2, windows: 3, settle: 1, values: 20, records: "jsonl", slow: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.acked != 9 || !r.stage.GetComplete() || r.acks.Count() != 9 || len(r.delays) == 0 || r.after.ledger == 0 ||
		r.beats.Count() == 0 || r.timed == 0 {
		t.Errorf("%+v", r)
	}
	if table := r.String(); !strings.Contains(table, "| 9, 0, true |") || strings.Contains(table, "n/a") {
		t.Errorf("the table is\n%s", table)
	}
}

// TestFlagsThatCannotBe: mistakes are reported before any agent starts.
func TestFlagsThatCannotBe(t *testing.T) {
	for name, s := range map[string]settings{
		"no agents":           {regions: 1, values: 1, settle: 1, slow: 1, windows: 9},
		"no time":             {agents: 1, regions: 1, values: 1, settle: 1, windows: 9},
		"no regions":          {agents: 1, values: 1, settle: 1, slow: 1, windows: 9},
		"all windows settled": {agents: 1, regions: 1, values: 1, settle: 5, slow: 1, windows: 6},
	} {
		if _, err := play(t.Context(), s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
