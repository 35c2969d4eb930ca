package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/plans"
)

// drifting is a server in virtual time that is slower the longer it runs: requests of a closed loop get a token each
// itl. It serves all targets of a plan.
type drifting struct {
	order    string        // of the plan
	repeats  int           // of each load
	loads    string        // concurrencies
	duration time.Duration // of a stage
	drift    float64       // share by which it gets slower in a second
	slower   float64       // share by which the target B is slower
	stage    float64       // standard deviation of a stage's own speed, relative
}

const (
	itlOfDrifting = 40e6 // nanoseconds
	jitter        = 0.05 // standard deviation of a gap, relative
	tokensEach    = 20
)

// run runs the stages of the server's plan in their order, with the chance of a seed.
func (s *drifting) run(t *testing.T, seed uint64) *Run {
	t.Helper()
	p, err := plans.Load("plan.yaml", fmt.Appendf(nil, "name: drift\norder: %s\n"+
		"targets: [{name: A, endpoints: [\"http://h\"], model: m}, {name: B, endpoints: [\"http://h\"], model: m}]\n"+
		"workloads: [{random: {isl: 50, osl: %d}}]\nloads: [{concurrency: [%s], duration: %s, repeats: %d}]\n",
		s.order, tokensEach, s.loads, s.duration, s.repeats), plans.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chance := rand.New(rand.NewPCG(seed, 1))
	run, rows, now := &Run{Name: "drift", Result: &results.Result{}}, map[uint32][]Request{}, 0.0
	for _, st := range p.Outline() {
		speed := 1 + s.stage*chance.NormFloat64()
		if st.GetTarget().GetName() == "B" {
			speed *= 1 + s.slower
		}
		w := &world{chance: chance}
		for range st.GetLoad().GetConcurrency() {
			for at := int64(0); at < int64(s.duration); {
				at = w.answer(at, itlOfDrifting*speed*(1+s.drift*(now+float64(at)/nanosPerSecond)))
			}
		}
		r := w.result()
		r.Index, r.Target, r.Seed = st.GetIndex(), st.GetTarget().GetName(), st.GetSeed()
		r.Load = results.Load{Words: fmt.Sprintf("concurrency %d", st.GetLoad().GetConcurrency()),
			Repeat: st.GetLoad().GetRepeat()}
		if r.Load.Repeat > 0 {
			r.Load.Words += fmt.Sprintf(", repeat %d", r.Load.Repeat)
		}
		r.StartTime = new(time.Unix(0, int64(now*nanosPerSecond)).UTC().Format(time.RFC3339Nano))
		run.Result.Stages, rows[r.Index] = append(run.Result.Stages, r), w.requests
		now += *r.DurationS
	}
	run.Requests = func(stage uint32, each func(*Request) error) error { return those(rows[stage])(0, each) }
	return run
}

// answer adds a request with a token each itl, in nanoseconds, and returns when it ended.
func (w *world) answer(at int64, itl float64) int64 {
	r := Request{Index: uint64(len(w.requests)), StartNs: at, OutputTokens: tokensEach, Completed: true}
	for range tokensEach {
		gap := int64(itl * math.Max(0.1, 1+jitter*w.chance.NormFloat64()))
		if at += gap; r.FirstTokenNs == nil {
			r.FirstTokenNs = new(at)
		} else {
			r.ITLNs = append(r.ITLNs, gap)
		}
	}
	r.LastTokenNs, r.EndNs = new(at), at
	w.requests = append(w.requests, r)
	return at
}

// called returns in how many of the pairs of seeds any number differs, and in how many TPOT is worse.
func (s drifting) called(t *testing.T) (different, tpot int) {
	t.Helper()
	for seed := range uint64(*pairs) {
		c, err := Of(ByTarget([]*Run{s.run(t, seed)}), Options{Tolerance: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		if same := c.Sides[0].Stages[0].Requests; same.Same == nil || !*same.Same || *same.Common == 0 {
			t.Fatalf("both were sent the same: %+v", same)
		}
		different += int(oneIf(c.Count(Worse)+c.Count(Better) > 0))
		worse := false
		for _, d := range c.Sides[0].Differences() {
			worse = worse || d.Outcome == Worse && strings.HasPrefix(d.Metric, "tpot_ms")
		}
		tpot += int(oneIf(worse))
	}
	return different, tpot
}

// One server under two names is not called different though it gets slower all the time, and a target that is slower is
// found: the table of turns in docs/accuracy.md.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name string
		of   drifting
	}{
		{"turns, 3 repeats of 8 s", drifting{order: "turns", repeats: 3, loads: "3", duration: 8 * time.Second}},
		{"one after the other, 3 repeats of 8 s", drifting{order: "target", repeats: 3, loads: "3", duration: 8 * time.Second}},
		{"turns, 2 repeats of 8 s", drifting{order: "turns", repeats: 2, loads: "3", duration: 8 * time.Second}},
		{"turns, 5 repeats of 8 s", drifting{order: "turns", repeats: 5, loads: "3", duration: 8 * time.Second}},
		{"turns, 4 loads of 8 s, once", drifting{order: "turns", repeats: 1, loads: "2, 3, 4, 5", duration: 8 * time.Second}},
		{"one after the other, 4 loads of 8 s, once", drifting{order: "target", repeats: 1, loads: "2, 3, 4, 5", duration: 8 * time.Second}},
	} {
		row := "| " + c.name
		for _, of := range []struct{ drift, slower, stage float64 }{{0, 0, 0}, {0.002, 0, 0}, {0.002, 0, 0.003},
			{0, 0.03, 0}, {0.002, 0.03, 0}, {0.002, 0.03, 0.003}} {
			c.of.drift, c.of.slower, c.of.stage = of.drift, of.slower, of.stage
			called, tpot := c.of.called(t)
			if of.slower == 0 {
				row += fmt.Sprintf(" | %d of %d", called, *pairs)
				if called > allowed(*pairs) {
					t.Errorf("%s, drift %v: %d of %d called different", c.name, of.drift, called, *pairs)
				}
				continue
			}
			row += fmt.Sprintf(" | %d of %d", tpot, *pairs)
			if c.of.order == "turns" && c.of.repeats > 1 && of.stage == 0 && tpot < *pairs {
				t.Errorf("%s, drift %v: 3 %% are found in %d of %d", c.name, of.drift, tpot, *pairs)
			}
		}
		t.Log(row + " |")
	}
}

// stagesAt returns stages of one target that ran at times, in seconds, each 10 s long, with values of TTFT.
func stagesAt(target string, value func(at float64) float64, times ...float64) (stages []results.StageResult) {
	for i, at := range times {
		s := stageOf(target, "1", value(at))
		s.Index, s.Load.Repeat, s.DurationS = uint32(at/10), uint32(i), new(10.0)
		if i > 0 {
			s.Load.Words += fmt.Sprintf(", repeat %d", i)
		}
		s.StartTime = new(time.Unix(int64(at), 0).UTC().Format(time.RFC3339Nano))
		s.TPOT = s.TTFT
		stages = append(stages, s)
	}
	return stages
}

// Without chance, a drift is taken out exactly, the difference and the drift are what they are, and the reader is told
// which of the two it is. Targets that ran one after the other keep both, and nothing is called that the drift
// explains.
func TestDriftIsTakenOut(t *testing.T) {
	value := func(slower float64) func(float64) float64 {
		return func(at float64) float64 { return 10 * math.Exp(0.002*at) * (1 + slower) }
	}
	compareAt := func(slower float64, a, b []float64) *Stage {
		run := &Run{Name: "r", Result: &results.Result{}}
		run.Result.Stages = append(stagesAt("A", value(0), a...), stagesAt("B", value(slower), b...)...)
		c, err := Of(ByTarget([]*Run{run}), Options{Tolerance: 0.01})
		if err != nil || len(c.Sides) != 1 || len(c.Sides[0].Stages) != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
		return &c.Sides[0].Stages[0]
	}
	turns, after := [2][]float64{{0, 30, 40}, {10, 20, 50}}, [2][]float64{{0, 10, 20}, {30, 40, 50}}
	s := compareAt(0, turns[0], turns[1])
	d := metric(t, s, "tpot_ms.mean")
	if s.Method != Turns || d.Outcome != Same || math.Abs(*d.Change) > 1e-9 || math.Abs(*d.Drift-0.00669) > 1e-4 {
		t.Errorf("one server: %+v, drift %v", d, *d.Drift)
	}
	if s.Drift == nil || math.Abs(s.Drift.PerSecond-0.002) > 1e-9 || len(s.Marks) != 1 || s.Marks[0] !=
		"both targets slowed by 0.2 %/s (TPOT mean, 0.2 to 0.2); the difference between them is not affected" {
		t.Errorf("drift %+v, marks %q", s.Drift, s.Marks)
	}
	if d := metric(t, compareAt(0.03, turns[0], turns[1]), "tpot_ms.mean"); d.Outcome != Worse || math.Abs(*d.Change-0.03) > 1e-9 {
		t.Errorf("3 %% slower: %+v", d)
	}
	s = compareAt(0, after[0], after[1])
	if d := metric(t, s, "tpot_ms.mean"); d.Outcome != Unclear || math.Abs(*d.Change-0.0618) > 1e-3 || d.Why != blockwise || *d.Low > 0 {
		t.Errorf("one after the other: %+v", d)
	}
	if len(s.Marks) != 2 || s.Marks[0] != blockwise || !strings.Contains(s.Marks[1], "is not known") {
		t.Errorf("one after the other: marks %q", s.Marks)
	}
	if d := metric(t, compareAt(1, after[0], after[1]), "tpot_ms.mean"); d.Outcome != Worse {
		t.Errorf("twice as slow is more than the drift explains: %+v", d)
	}
}

// The drift within one stage of each target is told, and that the difference may come from it.
func TestDriftWithinStages(t *testing.T) {
	of := drifting{order: "turns", repeats: 1, loads: "3", duration: time.Minute, drift: 0.002}
	c, err := Of(ByTarget([]*Run{of.run(t, 1)}), Options{Tolerance: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	s := &c.Sides[0].Stages[0]
	// 0.2 % of the first speed is 0.18 % of that in the middle.
	if s.Drift == nil || s.Drift.Low > 0.0018 || s.Drift.High < 0.0017 || s.Drift.Low <= 0 || len(s.Marks) != 1 ||
		!strings.HasPrefix(s.Marks[0], "both targets slowed by 0.1") || !strings.HasSuffix(s.Marks[0], "is not known") {
		t.Errorf("drift %+v, marks %q", s.Drift, s.Marks)
	}
	if d := metric(t, s, "tpot_ms.mean"); d.Outcome != Unclear || d.Why != onceEach || *d.Change < 0.1 {
		t.Errorf("12 %% by the drift: %+v", d)
	}
}

// Runs in which one target always came first do not tell it from the time, however many they are.
func TestAlwaysFirst(t *testing.T) {
	var ours, theirs []stage
	for run := range 3 {
		a, b := stagesAt("A", func(float64) float64 { return 1 }, 0), stagesAt("B", func(float64) float64 { return 1 }, 10)
		ours = append(ours, stage{run: &Run{}, result: &a[0], place: place{run: run}})
		theirs = append(theirs, stage{run: &Run{}, result: &b[0], place: place{run: run}})
	}
	if d := newTurns(ours, theirs, false); d != nil {
		t.Errorf("%+v", d)
	}
}

// With many repeats only neighbours are compared, so that a change that is not steady counts no more.
func TestManyRepeatsAreComparedByRounds(t *testing.T) {
	wave := func(at float64) float64 { return 10 + 3*math.Sin(at/60) }
	var a, b []float64
	for r := range 10 {
		first, second := &a, &b
		if r%2 == 1 {
			first, second = &b, &a
		}
		*first, *second = append(*first, float64(20*r)), append(*second, float64(20*r+10))
	}
	run := &Run{Name: "r", Result: &results.Result{}}
	run.Result.Stages = append(stagesAt("A", wave, a...), stagesAt("B", wave, b...)...)
	c, err := Of(ByTarget([]*Run{run}), Options{Tolerance: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if d := metric(t, &c.Sides[0].Stages[0], "ttft_ms.mean"); d.Outcome == Worse || *d.High-*d.Low > 0.1 {
		t.Errorf("values that go up and down by 30 %%: %+v, %v to %v", d, *d.Low, *d.High)
	}
}

// A number that rows are too few to show is not said to be without rows.
func TestWhyTwoRepeatsAreUntested(t *testing.T) {
	for few, want := range map[bool]string{true: "too few requests", false: "without request rows"} {
		m := &measured{turns: &turns{Turns: &chance.Turns{}}, few: few}
		if d := m.test(Difference{}, Options{}); !strings.Contains(d.Why, want) {
			t.Errorf("few %v: %v", few, d.Why)
		}
	}
}
