package compare

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
)

// short is a setting that is quick to run.
var short = setting{name: "short", concurrency: 4, duration: 4 * time.Second, osl: 50}

// stageOf returns a stage of a run of stages without rows.
func stageOf(target, load string, ttft float64) results.StageResult {
	return results.StageResult{Target: target, Workload: "w", Load: results.Load{Words: load}, Complete: true,
		Trust: trust.Trust{Verdict: trust.Valid}, Requests: results.Requests{Outcomes: results.Outcomes{Completed: 10}},
		Latencies: results.Latencies{TTFT: &histogram.Summary{Mean: ttft, P50: ttft, P90: ttft, P99: ttft, Count: 10}}}
}

// sideOf returns a side of one run.
func sideOf(name string, stages ...results.StageResult) Side {
	for i := range stages {
		stages[i].Index = uint32(i)
	}
	return Side{Name: name, Runs: []*Run{{Name: name, Result: &results.Result{Stages: stages}}}}
}

// compared compares two sides, which must be possible.
func compared(t *testing.T, a, b Side, o Options) *Against {
	t.Helper()
	c, err := Of([]Side{a, b}, o)
	if err != nil {
		t.Fatal(err)
	}
	return &c.Sides[0]
}

// metric returns a metric of a stage, which must be there.
func metric(t *testing.T, s *Stage, name string) *Difference {
	t.Helper()
	for i := range s.Metrics {
		if s.Metrics[i].Metric == name {
			return &s.Metrics[i]
		}
	}
	t.Fatalf("no %s in %+v", name, s.Metrics)
	return nil
}

// Stages are compared if the same was asked of them, in whatever order; the others are named.
func TestStagesMatch(t *testing.T) {
	a := compared(t, sideOf("a", stageOf("x", "1", 10), stageOf("x", "2", 10), stageOf("y", "1", 10)),
		sideOf("b", stageOf("x", "2", 12), stageOf("z", "1", 10), stageOf("x", "1", 11)), Options{})
	if len(a.Stages) != 2 || a.Stages[0].Load != "1" || a.Stages[0].Stages[0] != 2 || a.Stages[1].Stages[0] != 0 {
		t.Errorf("stages %+v", a.Stages)
	}
	if len(a.Unmatched) != 2 || a.Unmatched[0].Stage != "y, w, 1" || a.Unmatched[1].Stage != "z, w, 1" {
		t.Errorf("unmatched: %+v", a.Unmatched)
	}
	if d := metric(t, &a.Stages[0], "ttft_ms.mean"); math.Abs(*d.Change-0.1) > 1e-9 {
		t.Errorf("10 ms to 11 ms is a change of %v", *d.Change)
	}
}

// The only targets of two runs are compared whatever their names are.
func TestTargetsOfOtherNames(t *testing.T) {
	if a := compared(t, sideOf("a", stageOf("x", "1", 10)), sideOf("b", stageOf("y", "1", 10)), Options{}); len(a.Stages) != 1 {
		t.Errorf("one target each: %+v", a)
	}
	two := []Side{sideOf("a", stageOf("x", "1", 10), stageOf("x2", "1", 10)),
		sideOf("b", stageOf("y", "1", 11), stageOf("y2", "1", 12))}
	if _, err := Of(two, Options{}); !errors.Is(err, ErrNothingInCommon) {
		t.Errorf("two targets each with other names: %v", err)
	}
}

// The targets of one run are compared with the first of them, without a warning that they share the run, and notes name
// the target.
func TestByTarget(t *testing.T) {
	one := sideOf("a", stageOf("x", "1", 10), stageOf("y", "1", 5), stageOf("z", "1", 20))
	one.Runs[0].Result.Run.ID = "one"
	one.Runs[0].Result.Stages[1].Trust = trust.Trust{Verdict: trust.Suspect,
		Checks: []trust.Check{{Verdict: trust.Suspect, Words: "late"}}}
	c, err := Of(ByTarget(one.Runs), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Baseline != "x" || len(c.Sides) != 2 || c.Sides[1].Name != "z" ||
		*metric(t, &c.Sides[1].Stages[0], "ttft_ms.mean").Change != 1 {
		t.Errorf("%+v", c)
	}
	if y := &c.Sides[0]; len(y.Warnings) != 0 ||
		!slices.Equal(y.Stages[0].Marks, []string{"y of a is SUSPECT: late"}) {
		t.Errorf("warnings %q, marks %q", y.Warnings, y.Stages[0].Marks)
	}
}

// Stages that are INVALID or incomplete are compared only if that is asked for, and are then marked.
func TestRefused(t *testing.T) {
	invalid, partial := stageOf("x", "1", 10), stageOf("x", "2", 10)
	invalid.Trust = trust.Trust{Verdict: trust.Invalid, Checks: []trust.Check{{Verdict: trust.Invalid, Words: "late"}}}
	partial.Complete, partial.Missing = false, []string{"an agent"}
	a, b := sideOf("a", stageOf("x", "1", 10), stageOf("x", "2", 10)), sideOf("b", invalid, partial)
	refused := compared(t, a, b, Options{})
	if len(refused.Stages) != 0 || len(refused.Refused) != 2 || refused.Refused[0].Why != "b: INVALID: late" ||
		refused.Refused[1].Why != "b: incomplete: an agent" {
		t.Errorf("refused: %+v", refused)
	}
	allowed := compared(t, a, b, Options{AllowInvalid: true})
	if len(allowed.Stages) != 2 || !strings.Contains(allowed.Stages[0].Marks[0], "INVALID: late") {
		t.Errorf("allowed: %+v", allowed)
	}
}

// Without rows there are changes, and no tests of them.
func TestWithoutRows(t *testing.T) {
	a := compared(t, sideOf("a", stageOf("x", "1", 10)), sideOf("b", stageOf("x", "1", 20)), Options{})
	d := metric(t, &a.Stages[0], "ttft_ms.mean")
	if a.Stages[0].Method != None || d.Outcome != Untested || d.P != nil || *d.Change != 1 || d.Why == "" {
		t.Errorf("%+v", d)
	}
}

// A baseline of 0 has no relative change; a share changes by points.
func TestChangesFromZero(t *testing.T) {
	zero, failing := stageOf("x", "1", 0), stageOf("x", "1", 10)
	failing.Requests.Failed = 10
	a := compared(t, sideOf("a", zero), sideOf("b", failing), Options{})
	if d := metric(t, &a.Stages[0], "ttft_ms.mean"); d.Change != nil {
		t.Errorf("from 0 to 10: change %v", *d.Change)
	}
	if d := metric(t, &a.Stages[0], "error_share"); *d.Change != 0.5 {
		t.Errorf("no errors to half: %v points", *d.Change)
	}
}

// Three repeats of each setting are the units: a difference smaller than theirs is not called, a larger one is.
func TestRepeatsAreUnits(t *testing.T) {
	side := func(name string, values ...float64) Side {
		s := Side{Name: name}
		for _, v := range values {
			s.Runs = append(s.Runs, sideOf(name, stageOf("x", "1", v)).Runs...)
		}
		return s
	}
	base := side("a", 10.0, 10.4, 9.6)
	near, far := compared(t, base, side("b", 10.3, 10.7, 9.9), Options{}), compared(t, base, side("c", 20, 20.4, 19.6), Options{})
	if s := &near.Stages[0]; s.Method != Repeats || metric(t, s, "ttft_ms.mean").Outcome != Unclear {
		t.Errorf("3 %% among repeats that differ by 4 %%: %+v", s)
	}
	d := metric(t, &far.Stages[0], "ttft_ms.mean")
	if d.Outcome != Worse || math.Abs(*d.Change-1) > 1e-9 || *d.Low > 1 || *d.High < 1 {
		t.Errorf("twice as long: %+v", d)
	}
}

// The same requests are proved by the hashes of their bodies.
func TestSameRequests(t *testing.T) {
	request := func(index, hash uint64, osl uint32) Request {
		return Request{Index: index, BodyHash: hash, OSLAsked: osl}
	}
	ours := []Request{request(0, 1, 5), request(1, 2, 5)}
	stageWith := func(seed uint64, model string) *stage {
		return &stage{run: &Run{Requests: those(ours), Definitions: map[uint32]string{0: "x"}}, result: &results.StageResult{Seed: seed, Model: model}}
	}
	unique := func(s *stage) *stage { s.run.UniqueStarts = map[uint32]bool{0: true}; return s }
	other := func(s *stage) *stage { s.run.Definitions[0] = "y"; return s }
	for _, c := range []struct {
		name   string
		other  *stage
		theirs []Request
		same   string
		why    string
	}{
		{"equal", stageWith(1, "m"), []Request{request(1, 2, 5), request(0, 1, 5), request(2, 9, 5)}, "yes",
			"2 requests are in both (2 and 3 sent), with equal bodies"},
		{"model", stageWith(1, "n"), []Request{request(0, 7, 5)}, "no", `1 of 1 bodies differ (model "m" against "n")`},
		{"lengths", stageWith(1, "m"), []Request{request(0, 7, 6)}, "no", "1 of 1 requests ask for other lengths"},
		{"seed", stageWith(2, "m"), ours, "no", "seeds differ"},
		{"unique starts", unique(stageWith(1, "m")), []Request{request(0, 7, 5), request(1, 8, 5)}, "yes",
			"2 requests are in both, equal but for the unique start of each prompt"},
		{"unique starts, other workloads", other(unique(stageWith(1, "m"))), []Request{request(0, 7, 5)}, "no", "1 of 1 bodies differ"},
		{"unique starts, other models", unique(stageWith(1, "n")), []Request{request(0, 7, 5)}, "no", `model "m" against "n"`},
		{"none", stageWith(1, "m"), []Request{request(9, 1, 5)}, "no", "no request has a counterpart"},
		{"no rows", stageWith(1, "m"), nil, "not known", "no request rows"},
	} {
		c.other.run.Requests = those(c.theirs)
		mine := stageWith(1, "m")
		mine.run.UniqueStarts = c.other.run.UniqueStarts
		s, err := sameness(mine, c.other)
		if err != nil {
			t.Fatal(err)
		}
		got := "not known"
		if s.Same != nil {
			got = map[bool]string{true: "yes", false: "no"}[*s.Same]
		}
		if got != c.same || !strings.Contains(s.Why, c.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, got, s.Why, c.same, c.why)
		}
	}
}

// Different definitions, simulations and lengths are said first.
func TestWarnings(t *testing.T) {
	a, b := sideOf("a", stageOf("x", "1", 10)), sideOf("b", stageOf("x", "1", 10))
	b.Runs[0].Result.Run.Definitions, b.Runs[0].Result.Run.TimeCompression = 2, new(10.0)
	b.Runs[0].Result.Stages[0].OSL.Seen = &histogram.Summary{Mean: 50}
	a.Runs[0].Result.Stages[0].OSL.Seen = &histogram.Summary{Mean: 100}
	got := compared(t, a, b, Options{})
	if len(got.Warnings) != 2 || len(got.Stages[0].Marks) != 1 || !strings.Contains(got.Stages[0].Marks[0], "100.0 against 50.0") {
		t.Errorf("warnings %q, marks %q", got.Warnings, got.Stages[0].Marks)
	}
}

// A run compared with itself is the same in every number that can be tested.
func TestOneRunIsTheSame(t *testing.T) {
	run := short.run(1, 0)
	a := compared(t, Side{Name: "a", Runs: []*Run{run}}, Side{Name: "b", Runs: []*Run{run}}, Options{Tolerance: 0.01})
	if n := a.Counts(); n[Same] < 10 || n[Worse]+n[Better]+n[Unclear] > 0 {
		t.Errorf("%+v", a.Stages[0].Metrics)
	}
	if s := a.Stages[0]; *s.Requests.Same != true || s.Method != Blocks || *s.BlockS <= 0 {
		t.Errorf("%+v", s)
	}
}

// stageIn returns the only stage of a run.
func stageIn(run *Run) *stage { return &stage{run: run, result: &run.Result.Stages[0]} }

// The order of the rows, which differs between a ledger and a file, does not matter.
func TestAnyOrder(t *testing.T) {
	a, b := short.run(1, 0), short.run(2, 0.1)
	compareAs := func(b *Run) string {
		c, err := Of([]Side{{Name: "a", Runs: []*Run{a}}, {Name: "b", Runs: []*Run{b}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var rows []Request
	if err := b.Requests(0, func(r *Request) error { rows = append(rows, *r); return nil }); err != nil {
		t.Fatal(err)
	}
	want := compareAs(b)
	for seed := range uint64(5) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		b.Requests = those(rows)
		if got := compareAs(b); got != want {
			t.Fatalf("seed %d: %s\nwant %s", seed, got, want)
		}
	}
}

// What a part is said to move the mean by is what leaving it out moves the mean by.
func TestPartsMoveTheMean(t *testing.T) {
	s, err := newSeries(stageIn(short.run(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	d := s.latencies[itl].sums
	moved := d.mean()
	n, sum := floats.Sum(d.n), floats.Sum(d.sum)
	for k := range moved {
		without := (sum - d.sum[k]) / (n - d.n[k])
		want := (sum/n - without) * bins * (n - d.n[k]) / n
		if math.Abs(moved[k]-want) > 1e-6*sum/n {
			t.Fatalf("part %d moves the mean by %v, want %v", k, moved[k], want)
		}
	}
}

// The parts of a stage hold all its requests and tokens.
func TestPartsHoldAll(t *testing.T) {
	run := short.run(1, 0)
	result := &run.Result.Stages[0]
	s, err := newSeries(stageIn(run))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := floats.Sum(s.requests), float64(result.Requests.Completed); math.Abs(got/want-1) > 1e-4 {
		t.Errorf("%v requests in all parts, want %v", got, want)
	}
	if got := floats.Sum(s.tokens); math.Abs(got/float64(*result.OutputTokens)-1) > 1e-4 {
		t.Errorf("%v tokens in all parts, want %d", got, *result.OutputTokens)
	}
	for which, l := range latencies {
		d := &s.latencies[which]
		want := result.Latency(l.name)
		if n := floats.Sum(d.n); n != float64(want.Count) || math.Abs(floats.Sum(d.sum)/n/nanosPerMs-want.Mean) > 1e-6 {
			t.Errorf("%s: %v values, want %d", l.name, floats.Sum(d.n), want.Count)
		}
	}
}

// A stage that is hardly longer than a request is not tested.
func TestShortStage(t *testing.T) {
	brief := setting{concurrency: 2, duration: time.Second, osl: 200}
	a := compared(t, Side{Name: "a", Runs: []*Run{brief.run(1, 0)}}, Side{Name: "b", Runs: []*Run{brief.run(2, 0)}}, Options{})
	if d := metric(t, &a.Stages[0], "e2e_ms.mean"); d.Outcome != Untested || !strings.Contains(d.Why, "too short") {
		t.Errorf("%+v", d)
	}
}

// shortResult is the result of a short run.
var shortResult = short.run(1, 0).Result

// Rows may hold anything: no times, times in the wrong order, and no requests at all.
func FuzzSeries(f *testing.F) {
	f.Add(int64(0), int64(10), int64(3), int64(7), uint64(5), int64(2), true)
	f.Add(int64(-5), int64(-9), int64(math.MaxInt64), int64(math.MinInt64), uint64(1<<63), int64(-1), false)
	f.Fuzz(func(t *testing.T, start, end, first, last int64, tokens uint64, gap int64, completed bool) {
		rows := []Request{{StartNs: start, EndNs: end, FirstTokenNs: &first, LastTokenNs: &last, OutputTokens: tokens,
			ITLNs: []int64{gap}, Completed: completed}, {EndNs: 1000, Completed: true}}
		run := &Run{Result: shortResult, Requests: those(rows)}
		side := Side{Name: "a", Runs: []*Run{run}}
		if _, err := Of([]Side{side, side}, Options{}); err != nil {
			t.Fatal(err)
		}
	})
}

// A copy of a run is not a repeat of it, and a run beside itself is named as such.
func TestARunCountsOnce(t *testing.T) {
	a, b := sideOf("a", stageOf("x", "1", 10)), sideOf("b", stageOf("x", "1", 11))
	a.Runs[0].Result.Run.ID, b.Runs[0].Result.Run.ID = "one", "two"
	if w := compared(t, a, b, Options{}).Warnings; len(w) > 0 {
		t.Errorf("two runs: %q", w)
	}
	if w := compared(t, a, a, Options{}).Warnings; len(w) != 1 || !strings.Contains(w[0], "own run, one") {
		t.Errorf("a run with itself: %q", w)
	}
	b.Runs = append(b.Runs, b.Runs[0])
	if _, err := Of([]Side{a, b}, Options{}); err == nil || !strings.Contains(err.Error(), "are the same run, two") {
		t.Errorf("a run twice: %v", err)
	}
}

// What the baseline has and the other side lacks is a gap; what is new is none.
func TestGaps(t *testing.T) {
	one, two := sideOf("a", stageOf("x", "1", 10)), sideOf("b", stageOf("x", "1", 10), stageOf("x", "2", 10))
	if gaps := compared(t, one, two, Options{}).Gaps(); gaps != "" {
		t.Errorf("a new stage: %s", gaps)
	}
	if gaps := compared(t, two, one, Options{}).Gaps(); gaps != "stages and answers of the baseline that a lacks: 1" {
		t.Errorf("a lost stage: %q", gaps)
	}
	if compared(t, one, two, Options{}).Tested() {
		t.Error("results without rows count as tested")
	}
}

// Absurd values of a foreign file do not make a change that JSON cannot hold.
func TestChangesAreNumbers(t *testing.T) {
	a := compared(t, sideOf("a", stageOf("x", "1", 5e-324)), sideOf("b", stageOf("x", "1", 1e308)), Options{})
	if d := metric(t, &a.Stages[0], "ttft_ms.mean"); d.Change != nil {
		t.Errorf("%v", *d.Change)
	}
}
