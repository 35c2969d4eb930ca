package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/preparation"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/store"
)

// traceStage returns a stage that replays a trace of n rows, 10 ms apart, and the directory with its dataset.
func traceStage(t *testing.T, n int, speed float64, engines ...*engine) (stage *spatev1.Stage, dir string) {
	t.Helper()
	var trace strings.Builder
	for i := range n {
		fmt.Fprintf(&trace, `{"timestamp": %d, "input_length": 6, "output_length": 2, "hash_ids": [%d]}`+"\n", 10*i, i)
	}
	w := &spatev1.Workload{Name: "trace",
		Content: &spatev1.Workload_Mooncake{Mooncake: &spatev1.TraceContent{Path: "trace.jsonl"}}}
	var rows bytes.Buffer
	ds, _, err := dataset.Build(t.Context(), &rows, strings.NewReader(trace.String()), w,
		dataset.Options{Name: "trace.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	sum := sha256.Sum256(rows.Bytes())
	if hash := hex.EncodeToString(sum[:]); hash != ds.GetSha256() {
		t.Fatalf("the rows have the hash %s, not %s", hash, ds.GetSha256())
	}
	if err := os.WriteFile(rowsFile(t, dir, ds), rows.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	stage = stageOf(&spatev1.LoadPoint{Arrival: "trace", ReplaySpeed: speed, Requests: uint64(n)}, engines...)
	stage.Workload, stage.Dataset = w, ds
	return stage, dir
}

// rowsFile returns the path of a dataset in a directory.
func rowsFile(t *testing.T, dir string, ds *spatev1.Dataset) string {
	t.Helper()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	path, _, err := s.Path(ds.GetSha256(), ds.GetSize())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// resourcesIn returns the kit of an agent with a directory for datasets.
func resourcesIn(dir string) resources {
	k := resourcesOf(limits{})
	k.datasets.dir = dir
	return k
}

func TestReplayKeepsTheTimesOfTheTrace(t *testing.T) {
	e := newEngine(t, 0, 0)
	stage, dir := traceStage(t, 30, 2, e)
	seen := map[uint64]int{}
	for rank := range uint32(2) {
		o := beginWith(t, assignOf(stage, rank, 1, 2), resourcesIn(dir)).wait(t)
		for _, row := range o.rows {
			seen[row.GetIndex()]++
			want := 5 * time.Millisecond * time.Duration(row.GetIndex())
			if row.GetScheduledNs() != want.Nanoseconds() || row.GetStartNs() < row.GetScheduledNs() {
				t.Errorf("row %d scheduled at %d and started at %d, it came at %v", row.GetIndex(),
					row.GetScheduledNs(), row.GetStartNs(), want)
			}
			if row.GetIslAsked() != 6 || row.GetOslAsked() != 2 {
				t.Errorf("row %v", row)
			}
		}
		if o.totals.GetNeverSent() != 0 || o.totals.GetCounters().GetCompleted() != uint64(len(o.rows)) ||
			o.totals.GetFailure() != "" {
			t.Errorf("totals %v", o.totals)
		}
	}
	if len(seen) != 30 || len(e.requests()) != 30 {
		t.Errorf("%d rows sent in %d requests", len(seen), len(e.requests()))
	}
}

// A file is cut off after its index of rows, as if the disk failed during the stage.
func TestRowThatCannotBeReadFailsTheLoad(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed loop": {Concurrency: 3, Requests: 30},
		"open loop":   {Rate: 1000, Arrival: "constant", Requests: 30},
		"replay":      {Arrival: "trace", ReplaySpeed: 10, Requests: 30},
	} {
		t.Run(name, func(t *testing.T) {
			stage, dir := traceStage(t, 30, 1, newEngine(t, 0, 0))
			stage.Load = load
			s, err := prepare(t.Context(), assignOf(stage, 0), resourcesIn(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(rowsFile(t, dir, stage.GetDataset()), 16); err != nil {
				t.Fatal(err)
			}
			o := start(t, s).wait(t)
			if o.totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT ||
				!strings.Contains(o.totals.GetFailure(), "row") {
				t.Errorf("failure %q of kind %v", o.totals.GetFailure(), o.totals.GetFailureKind())
			}
			if c := o.totals.GetCounters(); c.GetStarted()+o.totals.GetNeverSent() != 30 {
				t.Errorf("totals %v", o.totals)
			}
		})
	}
}

func TestRejectedDatasets(t *testing.T) {
	e := newEngine(t, 0, 0)
	for name, c := range map[string]struct {
		change func(*spatev1.Stage, *resources)
		want   string
	}{
		"no directory": {func(_ *spatev1.Stage, k *resources) { k.datasets.dir = "" }, "no directory for datasets"},
		"another length": {func(s *spatev1.Stage, _ *resources) { s.Dataset.Rows++ },
			"has 5 rows, but the stage was made for 6"},
		"another size": {func(s *spatev1.Stage, _ *resources) { s.Dataset.Size++ }, "damaged"},
		"no rows":      {func(s *spatev1.Stage, _ *resources) { s.Dataset = nil }, "trace has no rows"},
		"replay of words": {func(s *spatev1.Stage, _ *resources) {
			s.Dataset, s.Workload = nil, stageOf(nil, e).Workload
		}, "a replay needs a workload with a trace, but 4:2 has no rows"},
	} {
		t.Run(name, func(t *testing.T) {
			stage, dir := traceStage(t, 5, 1, e)
			k := resourcesIn(dir)
			c.change(stage, &k)
			s, err := prepare(t.Context(), assignOf(stage, 0), k)
			if err == nil {
				s.close()
				t.Fatal("taken on")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
		})
	}
}

func TestRequestsLongerThanTheModelTakes(t *testing.T) {
	for most, fits := range map[int]bool{5: false, 6: true, 0: true} {
		e := newEngine(t, 0, 0)
		e.most = most
		s, err := prepare(t.Context(), assignOf(stageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0),
			resourcesOf(limits{}))
		switch {
		case err == nil:
			s.close()
		case !strings.Contains(err.Error(), "has 6 tokens") || !strings.Contains(err.Error(), "accepts at most 5"):
			t.Errorf("%v", err)
		}
		if (err == nil) != fits {
			t.Errorf("a limit of %d tokens: %v", most, err)
		}
	}
	e := newEngine(t, 0, 0)
	e.most = 7
	stage, dir := traceStage(t, 5, 1, e)
	if _, err := prepare(t.Context(), assignOf(stage, 0), resourcesIn(dir)); err == nil ||
		!strings.Contains(err.Error(), "has 8 tokens") {
		t.Errorf("trace: %v", err)
	}
}

func TestTargetIsAskedOnceARun(t *testing.T) {
	e := newEngine(t, 0, 0)
	e.most = 100
	k := resourcesOf(limits{})
	asked := 0
	for i, c := range []struct {
		run    string
		change func(*spatev1.Stage)
		again  bool
	}{
		{"one", nil, true},
		{"one", func(s *spatev1.Stage) { s.Load.Concurrency, s.Seed = 2, 8 }, false},
		{"one", func(s *spatev1.Stage) { s.Target.Model = "other" }, true},
		{"one", nil, false},
		{"two", nil, true},
	} {
		a := assignOf(stageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0)
		a.Ref.RunId = c.run
		if c.change != nil {
			c.change(a.Stage)
		}
		s, err := prepare(t.Context(), a, k)
		if err != nil {
			t.Fatal(err)
		}
		s.close()
		if (e.questions() > asked) != c.again || s.found.Preparation == nil {
			t.Errorf("stage %d: asked %d times, then %d; found %v", i, asked, e.questions(), s.found.Preparation)
		}
		asked = e.questions()
	}
}

// TestSharedFindings: stages that reach a server in the same way share findings, whatever else differs.
func TestSharedFindings(t *testing.T) {
	random := func(isl uint32) *spatev1.Workload {
		return &spatev1.Workload{Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: isl, Osl: 1}}}
	}
	sonnet := &spatev1.Workload{Content: &spatev1.Workload_Sonnet{Sonnet: &spatev1.SonnetContent{Isl: 9}}}
	base := func() *spatev1.Stage {
		return &spatev1.Stage{Workload: random(3), Target: &spatev1.Target{
			Name: "a", Endpoints: []string{"http://h"}, Api: "chat", Model: "m", ApiKey: "env:K",
			Headers: map[string]string{"X-A": "1"}, Tokenizer: "auto",
		}}
	}
	for name, tt := range map[string]struct {
		change func(*spatev1.Stage)
		same   bool
	}{
		"another name":   {func(s *spatev1.Stage) { s.Target.Name = "b" }, true},
		"another header": {func(s *spatev1.Stage) { s.Target.Headers["X-A"] = "2" }, true},
		"another load, seed": {func(s *spatev1.Stage) { s.Load, s.Seed = &spatev1.LoadPoint{Concurrency: 3}, 9 },
			true},
		"another length": {func(s *spatev1.Stage) { s.Workload = random(500) }, true},
		"a trace": {func(s *spatev1.Stage) {
			s.Workload = &spatev1.Workload{Content: &spatev1.Workload_Azure{}}
		}, true},
		"other timeouts":  {func(s *spatev1.Stage) { s.Target.RequestTimeout = durationpb.New(time.Second) }, true},
		"one header more": {func(s *spatev1.Stage) { s.Target.Headers["X-B"] = "1" }, false},
		"another key":     {func(s *spatev1.Stage) { s.Target.ApiKey = "env:L" }, false},
		"another model":   {func(s *spatev1.Stage) { s.Target.Model = "n" }, false},
		"another endpoint": {func(s *spatev1.Stage) { s.Target.Endpoints = append(s.Target.Endpoints, "http://i") },
			false},
		"other running usage": {func(s *spatev1.Stage) { s.Target.RunningUsage = "never" }, false},
		"a text of lines":     {func(s *spatev1.Stage) { s.Workload = sonnet }, false},
		"another text": {func(s *spatev1.Stage) {
			s.Workload, s.Dataset = sonnet, &spatev1.Dataset{Sha256: "other"}
		}, false},
	} {
		one, other := base(), base()
		if name == "another text" {
			one.Workload, one.Dataset = sonnet, &spatev1.Dataset{Sha256: "one"}
		}
		tt.change(other)
		a, err := findingOf(one)
		b, err2 := findingOf(other)
		if err != nil || err2 != nil || (a == b) != tt.same {
			t.Errorf("%s: same %v, %v, %v", name, a == b, err, err2)
		}
	}
}

// TestFindingsGoStale: findings are dropped after a while, with another run, and when a target of the run is dead.
func TestFindingsGoStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f findings
		var key finding
		known := func(run string) bool { _, known := f.get(run, key); return known }
		f.forget("a")
		f.put("a", key, preparation.Found{})
		time.Sleep(staleAfter)
		if !known("a") || known("b") {
			t.Error("not known in its run, or known in another")
		}
		time.Sleep(time.Second)
		if known("a") {
			t.Error("known for too long")
		}
		f.put("a", key, preparation.Found{})
		if f.forget("b"); !known("a") {
			t.Error("forgotten with another run")
		}
		if f.forget("a"); known("a") {
			t.Error("not forgotten")
		}
		if f.put("a", key, preparation.Found{}); !known("a") {
			t.Error("not found out again")
		}
	})
}

// TestADeadTargetIsAskedAgain: a server that went away may come back as something else.
func TestADeadTargetIsAskedAgain(t *testing.T) {
	e := newEngine(t, 0, 0)
	k := resourcesOf(limits{})
	assign := assignOf(stageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0)
	ready := func(a *spatev1.Assign) error {
		s, err := prepare(t.Context(), a, k)
		if err == nil {
			s.close()
		}
		return err
	}
	if err := ready(assign); err != nil {
		t.Fatal(err)
	}
	dead := assignOf(stageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0)
	dead.Stage.Target.Endpoints = []string{"http://127.0.0.1:1"}
	asked := e.questions()
	if err := ready(dead); failureKindOf(err) != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD {
		t.Fatalf("%v", err)
	}
	if err := ready(assign); err != nil || e.questions() <= asked {
		t.Errorf("asked %d times, then %d: %v", asked, e.questions(), err)
	}
}

func TestAppliedSaysWhatWasFoundAndMeasureMayComeAtAnyTime(t *testing.T) {
	e := newEngine(t, time.Millisecond, 0)
	e.most = 100
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	a := assignOf(stageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 10,
		WarmupUntilSteady: durationpb.New(time.Minute)}, e), 0)
	measure := func(ref *spatev1.AssignmentRef, from time.Duration) {
		c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Measure{Measure: &spatev1.Measure{Ref: ref,
			FromNs: from.Nanoseconds()}}})
	}
	c.assign(a)
	if got := c.next().GetApplied().GetPreparation(); got.GetMaxModelTokens() != 100 ||
		got.GetLengths() != "token_ids" {
		t.Errorf("preparation %v", got)
	}
	measure(&spatev1.AssignmentRef{RunId: "run", StageIndex: 7, Revision: 1}, 0)
	measure(a.GetRef(), 50*time.Millisecond)
	c.arm(a.GetRef())
	totals := c.totals(0)
	if n := totals.GetCounters(); n.GetCompleted() != 10 || n.GetUnmeasuredEnded() == 0 ||
		totals.GetFirstStartNs() < (50*time.Millisecond).Nanoseconds() {
		t.Errorf("totals %v", totals)
	}
}
