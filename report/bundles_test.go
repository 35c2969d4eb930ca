package report

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spate-load/spate/aggregate/bundle"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// bundled makes a run directory with a ledger that has the snapshots of another in bundles, as relays make them.
func bundled(t *testing.T, from string) string {
	t.Helper()
	old, err := ledger.OpenReadOnly(filepath.Join(from, ledger.File))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	dir := t.TempDir()
	run, err1 := old.Run()
	stages, err2 := old.Stages()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Create(filepath.Join(dir, ledger.File), ledger.Change{Run: run, Stages: stages})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sequence := uint64(0)
	for _, rec := range stages {
		windows := map[uint32][]*spatev1.Snapshot{}
		err := old.Snapshots(rec.GetStage().GetIndex(), func(s *spatev1.Snapshot) error {
			windows[s.GetWindow()] = append(windows[s.GetWindow()], s)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, all := range windows {
			sum, members, misfits := bundle.Of(all, &spatev1.Merged{Region: "eu"})
			sequence++
			sum.Key.Agent, sum.Key.Incarnation, sum.Key.Sequence = "relay eu", 7, sequence
			b, strangers, err := merge.CheckBundle(sum, members, run, rec)
			if err != nil || len(misfits)+len(strangers) > 0 {
				t.Fatalf("%v, %d and %d snapshots are not in it", err, len(misfits), len(strangers))
			}
			if err := l.AppendAll(b.Snapshots()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// A run whose snapshots came in bundles has the files of the same run without them. Only latencies of single agents
// are not known.
func TestBundlesChangeNothingButTheLatenciesOfSingleAgents(t *testing.T) {
	plain := runDir(t, "jsonl", inOrder)
	together := bundled(t, plain)
	want, got := written(t, plain), written(t, together)
	if len(want) != len(got) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	for name, text := range want {
		switch {
		case name == "results.json":
			a, b := decoded(t, text), decoded(t, got[name])
			for _, s := range slices.Backward(b["stages"].([]any)) {
				for _, agent := range s.(map[string]any)["agents"].([]any) {
					for _, latency := range []string{"ttft_ms", "tpot_ms", "e2e_ms"} {
						if v := agent.(map[string]any)[latency]; v != nil {
							t.Errorf("%s of an agent is %v", latency, v)
						}
					}
				}
			}
			forgetAgents(a)
			forgetAgents(b)
			if x, y := indented(t, a), indented(t, b); x != y {
				t.Errorf("results.json is\n%s\nwant\n%s", y, x)
			}
		case slices.Contains([]string{"report.html", "report.md"}, name): // have a row for each agent
		case got[name] != text:
			t.Errorf("%s differs", name)
		}
	}
}

// forgetAgents removes the latencies of agents from results.
func forgetAgents(results map[string]any) {
	for _, s := range results["stages"].([]any) {
		for _, agent := range s.(map[string]any)["agents"].([]any) {
			for _, latency := range []string{"ttft_ms", "tpot_ms", "e2e_ms"} {
				delete(agent.(map[string]any), latency)
			}
		}
	}
}

func decoded(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
