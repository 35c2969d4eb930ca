package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/internal/local"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// realSite is a web server over a coordinator with an agent.
func realSite(t *testing.T) (*site, *coordinator.Coordinator) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	c, err := coordinator.New(coordinator.Config{DataDir: t.TempDir(), Logger: logger, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := local.Start(c, []agent.Config{{Name: "a", Weight: 1, Logger: logger, DatasetDir: t.TempDir()}}, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return start(t, func(cfg *Config) { cfg.Runs, cfg.Dir = c.RunService(), c.RunDir }), c
}

// simulated returns a plan against a simulator.
func simulated(t *testing.T, concurrency, duration string) string {
	t.Helper()
	server, err := simulator.Start(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(context.Background()) }) // its requests have ended with the run
	return fmt.Sprintf(`name: real
seed: 1
targets: [{name: t, endpoints: [%q], model: m}]
workloads: [{random: {isl: 10, osl: 5}}]
loads: [{concurrency: [%s], duration: %s, warmup: {duration: 0s}}]
`, server.URLs()[0], concurrency, duration)
}

// A plan that is submitted runs on real agents; its events, files and comparison are those of the run.
func TestRealRun(t *testing.T) {
	s, _ := realSite(t)
	d := readSchemas(t)
	var submitted spatev1.SubmitRunResponse
	s.ask(d, "POST", "/runs", "", simulated(t, "2", "1s"), 201, &submitted)
	id := submitted.GetRunId()
	s.ask(d, "GET", "/runs/{id}/files", id, "", 409, nil) // it is in progress
	_, text := s.do("GET", root+"/runs/"+id+"/events?windows=true", "")
	for _, kind := range []string{"run_started", "stage_started", "stage_window", "stage_ended", "run_ended"} {
		if !strings.Contains(text, "event: "+kind+"\n") {
			t.Errorf("no %s in\n%s", kind, text)
		}
	}
	if !strings.Contains(text, `"plan":[{"target":"t", "workload":"10:5", "load":"concurrency 2"`) &&
		!strings.Contains(text, `"plan":[{"target":"t","workload":"10:5","load":"concurrency 2"`) { // spaces vary by build
		t.Errorf("no plan of the stages in\n%.600s", text)
	}
	s.waitForEnd(id)
	a, text := s.do("GET", root+"/runs/"+id+"/files/"+results.File, "")
	var r results.Result
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Run.ID != id || !r.Run.Complete {
		t.Errorf("%s %v %.300s", a.Status, err, text)
	}
	var files struct {
		Files []struct {
			Name  string
			Bytes int64
		}
	}
	text = s.ask(d, "GET", "/runs/{id}/files", id, "", 200, nil)
	if err := json.Unmarshal([]byte(text), &files); err != nil || len(files.Files) < 6 {
		t.Fatalf("%v %s", err, text)
	}
	for _, f := range files.Files {
		a, body := s.do("GET", root+"/runs/"+id+"/files/"+f.Name, "")
		if int64(len(body)) != f.Bytes || a.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %d bytes, want %d", f.Name, len(body), f.Bytes)
		}
	}
	a, text = s.do("GET", root+"/comparison?baseline="+id+"&run="+id+"&allow_invalid=true", "")
	if a.StatusCode != http.StatusOK || !json.Valid([]byte(text)) {
		t.Errorf("comparison: %s %.300s", a.Status, text)
	}
	for path, want := range map[string]int{
		"/files/ledger.db-2": 404, "/files/..%2f..%2fetc%2fpasswd": 404, "/files/%2e%2e": 404,
	} {
		if got := s.code("GET", root+"/runs/"+id+path); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	for query, want := range map[string]int{
		"": 400, "?baseline=" + id: 400, "?baseline=none&run=" + id: 404, "?baseline=..&run=" + id: 400,
		"?baseline=" + id + "&run=" + id + "&tolerance=NaN": 400,
	} {
		if got := s.code("GET", root+"/comparison"+query); got != want {
			t.Errorf("comparison%s: %d, want %d", query, got, want)
		}
	}
	if got := s.code("DELETE", root+"/runs/"+id); got != http.StatusOK {
		t.Errorf("removed: %d", got)
	}
	if got := s.code("GET", root+"/runs/"+id); got != http.StatusNotFound {
		t.Errorf("after its removal: %d", got)
	}
}

// waitForEnd waits until a run whose last event has come is an ended one: its ledger is closed after the event.
func (s *site) waitForEnd(id string) {
	s.t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		_, text := s.do("GET", root+"/runs/"+id, "")
		if strings.Contains(text, "RUN_STATE_ENDED") {
			return
		}
		if time.Since(start) > 30*time.Second {
			s.t.Fatalf("it has not ended: %s", text)
		}
	}
}
