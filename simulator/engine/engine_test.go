package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
)

// tick is the unit of time in these tests: a prompt token takes one tick.
const tick = time.Millisecond

// token is an emission in the form of these tests: the sequence, the number of the token, and the tick.
type token struct{ Seq, N, At int }

// arrival is a sequence and the tick at which it arrives. It is cancelled at tick Cancel, or never if that is 0.
type arrival struct{ At, Prompt, Output, Cancel int }

// changed changes a model.
func changed(m config.Model, change func(*config.Model)) config.Model {
	change(&m)
	return m
}

func ticks(base, per, maxRunning int) config.Model {
	return config.Model{
		PrefillTokensPerSecond: float64(time.Second / tick),
		DecodeStep:             time.Duration(base) * tick,
		DecodeStepPerRequest:   time.Duration(per) * tick,
		MaxRunning:             maxRunning,
	}
}

// group configures the engines of a test: disaggregated if there are prefillers.
type group struct {
	config.Model
	prefillers, decoders int
}

// oneEngine configures one ordinary engine.
func oneEngine(m config.Model) group { return group{Model: m} }

// play runs arrivals through the engines. pauses are the ticks to which the engines are advanced in between.
func play(g group, arrivals []arrival, pauses []int) []token {
	e := newEngine(g.Model, g.prefillers, g.decoders, 0)
	seqs := make([]*Sequence, len(arrivals))
	place := map[*Sequence]int{}
	var out []token
	to := func(at int) {
		for _, em := range e.Advance(clock.Instant(at)*clock.Instant(tick), nil) {
			out = append(out, token{place[em.Seq], em.Produced, int(em.At / clock.Instant(tick))})
		}
	}
	for _, ev := range timeline(arrivals, pauses) {
		to(ev.at)
		switch {
		case ev.seq < 0:
		case ev.cancel:
			e.Cancel(seqs[ev.seq])
		default:
			s := &Sequence{Prompt: arrivals[ev.seq].Prompt, Output: arrivals[ev.seq].Output}
			seqs[ev.seq], place[s] = s, ev.seq
			e.Add(s)
		}
	}
	to(1 << 30)
	return out
}

// moment is one line of a timeline: an arrival, a cancellation, or (seq -1) nothing.
type moment struct {
	at, seq int
	cancel  bool
}

func timeline(arrivals []arrival, pauses []int) []moment {
	var events []moment
	for i, a := range arrivals {
		events = append(events, moment{at: a.At, seq: i})
		if a.Cancel > 0 {
			events = append(events, moment{at: max(a.Cancel, a.At), seq: i, cancel: true})
		}
	}
	for _, at := range pauses {
		events = append(events, moment{at: at, seq: -1})
	}
	slices.SortStableFunc(events, func(a, b moment) int { return a.at - b.at })
	return events
}

func TestEngine(t *testing.T) {
	for name, c := range map[string]struct {
		group
		arrivals []arrival
		want     []token
	}{
		"one request: first token at the end of prefill, then a step each": {
			oneEngine(ticks(10, 5, 8)),
			[]arrival{{At: 100, Prompt: 7, Output: 3}},
			[]token{{0, 1, 107}, {0, 2, 117}, {0, 3, 127}},
		},
		"a single token needs no step": {
			oneEngine(ticks(10, 5, 8)),
			[]arrival{{At: 1, Prompt: 2, Output: 1}},
			[]token{{0, 1, 3}},
		},
		"prefill is first come, first served; who joins waits for the next step, and makes it longer": {
			oneEngine(ticks(10, 5, 8)),
			[]arrival{{At: 0, Prompt: 4, Output: 3}, {At: 0, Prompt: 3, Output: 2}},
			// Step 4..14 has one, step 14..29 has two.
			[]token{{0, 1, 4}, {1, 1, 7}, {0, 2, 14}, {0, 3, 29}, {1, 2, 29}},
		},
		"who comes to an end of prefill at the end of a step is in the next": {
			oneEngine(ticks(10, 0, 8)),
			[]arrival{{At: 0, Prompt: 4, Output: 3}, {At: 0, Prompt: 10, Output: 2}},
			[]token{{0, 1, 4}, {1, 1, 14}, {0, 2, 14}, {0, 3, 24}, {1, 2, 24}},
		},
		"a full engine queues": {
			oneEngine(ticks(10, 0, 1)),
			[]arrival{{At: 0, Prompt: 1, Output: 2}, {At: 0, Prompt: 1, Output: 2}},
			[]token{{0, 1, 1}, {0, 2, 11}, {1, 1, 12}, {1, 2, 22}},
		},
		"an idle engine begins its step when there is something to decode": {
			oneEngine(ticks(10, 0, 8)),
			[]arrival{{At: 0, Prompt: 1, Output: 2}, {At: 50, Prompt: 3, Output: 2}},
			[]token{{0, 1, 1}, {0, 2, 11}, {1, 1, 53}, {1, 2, 63}},
		},
		"cancelled in the step: it keeps its length, the slot is free at once": {
			oneEngine(ticks(10, 5, 1)),
			[]arrival{{At: 0, Prompt: 1, Output: 9, Cancel: 5}, {At: 0, Prompt: 2, Output: 2}},
			[]token{{0, 1, 1}, {1, 1, 7}, {1, 2, 21}},
		},
		"cancelled in prefill and in the queue": {
			oneEngine(ticks(10, 0, 8)),
			[]arrival{{At: 0, Prompt: 50, Output: 9, Cancel: 5}, {At: 0, Prompt: 2, Output: 9, Cancel: 3},
				{At: 0, Prompt: 2, Output: 1}},
			[]token{{2, 1, 7}},
		},
		"prefill at full interference: the step under way stands still": {
			oneEngine(changed(ticks(10, 0, 8), func(m *config.Model) { m.PrefillInterference = 1 })),
			[]arrival{{At: 0, Prompt: 4, Output: 3}, {At: 6, Prompt: 20, Output: 2}},
			// Step 4..14 stands still from 6 to 26.
			[]token{{0, 1, 4}, {1, 1, 26}, {0, 2, 34}, {0, 3, 44}, {1, 2, 44}},
		},
		"at half interference it goes on at half its pace": {
			oneEngine(changed(ticks(10, 0, 8), func(m *config.Model) { m.PrefillInterference = 0.5 })),
			[]arrival{{At: 0, Prompt: 4, Output: 3}, {At: 6, Prompt: 20, Output: 2}},
			// Step 4..14 has 8 left at 6, which take 16; step 22..32 has 4 done slowly in 8, 2 at once in 4 and 8
			// after.
			[]token{{0, 1, 4}, {0, 2, 22}, {1, 1, 26}, {0, 3, 34}, {1, 2, 44}},
		},
		"overhead holds nothing": {
			oneEngine(changed(ticks(10, 0, 1), func(m *config.Model) { m.Overhead = 5 * tick })),
			[]arrival{{At: 0, Prompt: 4, Output: 2}, {At: 16, Prompt: 1, Output: 1}},
			[]token{{0, 1, 9}, {0, 2, 19}, {1, 1, 22}},
		},
		"disaggregated: the prefiller hands over before it takes the next, and prefill disturbs no step": {
			group{changed(ticks(10, 0, 8),
				func(m *config.Model) { m.TransferPerThousandTokens = 500 * tick; m.PrefillInterference = 1 }), 1, 1},
			[]arrival{{At: 0, Prompt: 4, Output: 3}, {At: 0, Prompt: 6, Output: 2}},
			[]token{{0, 1, 6}, {1, 1, 15}, {0, 2, 16}, {0, 3, 26}, {1, 2, 26}},
		},
		"disaggregated: the decoder stands still while a KV cache comes in": {
			group{changed(ticks(10, 0, 8),
				func(m *config.Model) { m.TransferPerThousandTokens = 500 * tick; m.TransferInterference = 1 }), 1, 1},
			[]arrival{{At: 0, Prompt: 4, Output: 3}, {At: 0, Prompt: 6, Output: 2}},
			// Step 6..16 stands still from 12 to 15.
			[]token{{0, 1, 6}, {1, 1, 15}, {0, 2, 19}, {0, 3, 29}, {1, 2, 29}},
		},
		"prefill first: prompts that wait come before what is handed over, and the decoder stands still until it is": {
			group{changed(ticks(10, 0, 8), func(m *config.Model) {
				m.TransferPerThousandTokens, m.TransferInterference, m.PrefillFirst = 500*tick, 1, true
			}), 1, 1},
			[]arrival{{At: 0, Prompt: 4, Output: 3}, {At: 0, Prompt: 6, Output: 2}, {At: 3, Prompt: 2, Output: 1},
				{At: 30, Prompt: 8, Output: 1}},
			// Prefills end at 4, 10 and 12. The first prompt is handed over from 12 to 14, the two others from 14 to
			// 18. The first one's step starts at 14 and stands still until 18. The last prefill ends at 38.
			[]token{{0, 1, 14}, {1, 1, 18}, {2, 1, 18}, {0, 2, 28}, {0, 3, 38}, {1, 2, 38}, {3, 1, 42}},
		},
		"each prompt holds its prefiller for a while": {
			oneEngine(changed(ticks(10, 0, 8), func(m *config.Model) { m.PrefillPerPrompt = 5 * tick })),
			[]arrival{{At: 0, Prompt: 4, Output: 1}, {At: 0, Prompt: 1, Output: 1}},
			[]token{{0, 1, 9}, {1, 1, 15}},
		},
		"prompts that share the prefill end together if they are alike": {
			oneEngine(changed(ticks(10, 0, 8), func(m *config.Model) { m.PrefillSharing = true })),
			[]arrival{{At: 0, Prompt: 4, Output: 1}, {At: 0, Prompt: 4, Output: 1}, {At: 20, Prompt: 4, Output: 1}},
			[]token{{0, 1, 8}, {1, 1, 8}, {2, 1, 24}},
		},
		"a short prompt does not wait for a long one that shares with it": {
			group{changed(ticks(10, 0, 8), func(m *config.Model) { m.PrefillSharing = true }), 1, 1},
			[]arrival{{At: 0, Prompt: 20, Output: 1}, {At: 10, Prompt: 2, Output: 1}},
			[]token{{1, 1, 14}, {0, 1, 22}},
		},
		"two prefillers give two prompts one each": {
			group{changed(ticks(10, 0, 8), func(m *config.Model) { m.PrefillSharing = true }), 2, 1},
			[]arrival{{At: 0, Prompt: 8, Output: 1}, {At: 0, Prompt: 8, Output: 1}, {At: 4, Prompt: 2, Output: 1}},
			// From 4 to 7 each gets two thirds.
			[]token{{2, 1, 7}, {0, 1, 9}, {1, 1, 9}},
		},
		"prefill interferes as long as somebody is in it": {
			oneEngine(changed(ticks(10, 0, 8),
				func(m *config.Model) { m.PrefillSharing = true; m.PrefillInterference = 1 })),
			[]arrival{{At: 0, Prompt: 4, Output: 2}, {At: 6, Prompt: 8, Output: 1}, {At: 6, Prompt: 2, Output: 1}},
			// Step 4..14 stands still from 6 to 16.
			[]token{{0, 1, 4}, {2, 1, 10}, {1, 1, 16}, {0, 2, 24}},
		},
		"disaggregated: a full decoder makes the first token wait, and not the prefill": {
			group{ticks(10, 0, 1), 2, 1},
			[]arrival{{At: 0, Prompt: 4, Output: 2}, {At: 0, Prompt: 5, Output: 2},
				{At: 0, Prompt: 5, Output: 1, Cancel: 8}, {At: 8, Prompt: 1, Output: 1}},
			[]token{{0, 1, 4}, {0, 2, 14}, {1, 1, 14}, {1, 2, 24}, {3, 1, 24}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, play(c.group, c.arrivals, nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSpreadStep(t *testing.T) {
	m := ticks(12, 0, 8)
	m.SpreadStep = true
	got := play(oneEngine(m), []arrival{{Prompt: 2, Output: 4}, {Prompt: 2, Output: 3}, {Prompt: 2, Output: 2}}, nil)
	want := []token{
		{0, 1, 2}, {1, 1, 4}, {2, 1, 6},
		{0, 2, 14},                         // step 2..14 has one
		{0, 3, 18}, {1, 2, 22}, {2, 2, 26}, // step 14..26 has three
		{0, 4, 32}, {1, 3, 38}, // step 26..38 has two
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPrefillTime(t *testing.T) {
	for _, c := range []struct {
		rate   float64
		prompt int
		want   time.Duration
	}{
		{50_000, 3000, 60 * time.Millisecond},
		{math.Inf(1), 3000, 0},
		{3, 1, 333_333_333},
		{1e-300, 1, maxDuration},
	} {
		m := costs{config.Model{PrefillTokensPerSecond: c.rate}}
		if got := m.prefillTime(c.prompt); got != c.want {
			t.Errorf("%d tokens at %v/s: %v, want %v", c.prompt, c.rate, got, c.want)
		}
	}
}

func drawArrivals(t *rapid.T) []arrival {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) arrival {
		a := arrival{
			At:     rapid.IntRange(0, 60).Draw(t, "at"),
			Prompt: rapid.IntRange(0, 12).Draw(t, "prompt"),
			Output: rapid.IntRange(1, 6).Draw(t, "output"),
		}
		if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
			a.Cancel = a.At + rapid.IntRange(1, 40).Draw(t, "after")
		}
		return a
	}), 1, 20).Draw(t, "arrivals")
}

func drawGroup(t *rapid.T) group {
	g := group{Model: ticks(rapid.IntRange(0, 9).Draw(t, "base"), rapid.IntRange(0, 4).Draw(t, "per"),
		rapid.IntRange(1, 6).Draw(t, "max"))}
	g.Overhead = time.Duration(rapid.IntRange(0, 5).Draw(t, "overhead")) * tick
	g.PrefillPerPrompt = time.Duration(rapid.IntRange(0, 3).Draw(t, "per prompt")) * tick
	if rapid.Bool().Draw(t, "disaggregated") {
		g.prefillers, g.decoders = rapid.IntRange(1, 3).Draw(t, "prefillers"), rapid.IntRange(1, 3).Draw(t, "decoders")
		g.TransferPerThousandTokens = time.Duration(rapid.IntRange(0, 2).Draw(t, "transfer")) * 1000 * tick
		g.TransferInterference = float64(rapid.IntRange(0, 1).Draw(t, "stands still"))
		g.PrefillFirst = rapid.Bool().Draw(t, "prefill first")
	} else if rapid.Bool().Draw(t, "interference") {
		g.PrefillInterference = 1
	}
	return g
}

// The engine does the same as an oracle that looks at everything at each tick, however the engine is advanced.
func TestEngineAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrivals := drawArrivals(t)
		g := drawGroup(t)
		pauses := rapid.SliceOf(rapid.IntRange(0, 200)).Draw(t, "pauses")
		if diff := cmp.Diff(oracle(g, arrivals), play(g, arrivals, pauses)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Each request gets its tokens once each and in order, first tokens come in the order of arrival, and the engine never
// holds more than max_running sequences, with and without SpreadStep.
func TestEngineConserves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		arrivals := drawArrivals(t)
		for i := range arrivals {
			arrivals[i].Cancel = 0
		}
		slices.SortStableFunc(arrivals, func(a, b arrival) int { return a.At - b.At })
		m := ticks(rapid.IntRange(0, 9).Draw(t, "base"), rapid.IntRange(0, 4).Draw(t, "per"),
			rapid.IntRange(1, 6).Draw(t, "max"))
		m.PrefillInterference = rapid.Float64Range(0, 1).Draw(t, "interference")
		m.SpreadStep = rapid.Bool().Draw(t, "spread")
		got := make([]int, len(arrivals))
		begun, ended, last := 0, 0, 0
		for _, tok := range play(oneEngine(m), arrivals, nil) {
			if tok.At < last {
				t.Fatalf("%+v comes after tick %d", tok, last)
			}
			last = tok.At
			if got[tok.Seq]++; tok.N != got[tok.Seq] {
				t.Fatalf("%+v is its token number %d", tok, got[tok.Seq])
			}
			if tok.N == 1 {
				if tok.Seq != begun {
					t.Fatalf("request %d has its first token before request %d", tok.Seq, begun)
				}
				begun++
			}
			if tok.N == arrivals[tok.Seq].Output {
				ended++
			}
			if begun-ended > m.MaxRunning {
				t.Fatalf("%d decode at once", begun-ended)
			}
		}
		for i, n := range got {
			if n != arrivals[i].Output {
				t.Fatalf("request %d got %d of %d tokens", i, n, arrivals[i].Output)
			}
		}
	})
}

// Shared prefill gives each prompt its share, as the definition computed prompt by prompt and event by event.
func TestPrefillSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		engines := rapid.IntRange(1, 3).Draw(t, "engines")
		arrivals := drawArrivals(t)
		for i := range arrivals {
			arrivals[i].Cancel, arrivals[i].Output, arrivals[i].Prompt = 0, 1, arrivals[i].Prompt+1
		}
		slices.SortStableFunc(arrivals, func(a, b arrival) int { return a.At - b.At })
		left, ends := make([]float64, len(arrivals)), make([]float64, len(arrivals))
		for now, done := 0.0, 0; done < len(arrivals); {
			here, next, least := 0, math.Inf(1), math.Inf(1)
			for i, a := range arrivals {
				switch {
				case ends[i] > 0:
				case float64(a.At) > now:
					next = min(next, float64(a.At))
				default:
					if left[i] == 0 {
						left[i] = float64(a.Prompt)
					}
					here, least = here+1, min(least, left[i])
				}
			}
			pace := min(1, float64(engines)/float64(max(1, here)))
			until := min(next, now+least/pace)
			for i, a := range arrivals {
				if ends[i] == 0 && float64(a.At) <= now {
					if left[i] -= (until - now) * pace; left[i] < 1e-9 {
						ends[i], done = until, done+1
					}
				}
			}
			now = until
		}
		m := ticks(1, 0, 100)
		m.PrefillSharing = true
		e := newEngine(m, engines, 1, 0)
		numbers := map[*Sequence]int{}
		var out []Emission
		for i, a := range arrivals {
			out = e.Advance(clock.Instant(time.Duration(a.At)*tick), out)
			s := &Sequence{Prompt: a.Prompt, Output: 1}
			numbers[s] = i
			e.Add(s)
		}
		out = e.Advance(e.now.Add(time.Hour), out)
		for _, em := range out {
			got, want := float64(em.At)/float64(tick), ends[numbers[em.Seq]]
			if math.Abs(got-want) > 1e-3 {
				t.Fatalf("prompt %d ends at %v, want %v", numbers[em.Seq], got, want)
			}
		}
		if len(out) != len(arrivals) {
			t.Fatalf("%d of %d prompts end", len(out), len(arrivals))
		}
	})
}

// Jitter keeps the mean and has the configured coefficient of variation. Stalls are as frequent as configured.
func TestJitter(t *testing.T) {
	m := costs{config.Default().Model}
	m.StepJitter, m.StallShare, m.Stall = 0.3, 0.1, 2*m.DecodeStep
	m.PrefillJitter = 0.5
	d := decoder{model: m, noise: m.stepNoise(0, 0)}
	const n = 100_000
	sum, squares := 0.0, 0.0
	for range n {
		x := float64(d.step(1)) / float64(m.DecodeStep)
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / n
	if v := squares/n - mean*mean; math.Abs(mean-1.2) > 0.01 || math.Abs(v-(0.3*0.3+4*0.1*0.9)) > 0.01 {
		t.Errorf("steps: mean %v and variance %v of a step", mean, v)
	}
	sum, squares = 0, 0
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		x := float64(m.prefillWork(&Sequence{Prompt: 1000, Noise: r.NormFloat64()})) / float64(m.prefillTime(1000))
		sum, squares = sum+x, squares+x*x
	}
	mean = sum / n
	if cv := math.Sqrt(squares/n - mean*mean); math.Abs(mean-1) > 0.01 || math.Abs(cv-0.5) > 0.02 {
		t.Errorf("prefills: mean %v, coefficient of variation %v", mean, cv)
	}
}

// The last engine is slower than the first by the configured share, and the engines between lie evenly between them.
func TestReplicaSpread(t *testing.T) {
	c := config.Default()
	c.Endpoints, c.Replicas, c.ReplicaSpread = 2, 2, 0.6
	for number, want := range []float64{1, 1.2, 1.4, 1.6} {
		m := modelOf(&c, number)
		if got := float64(m.DecodeStep) / float64(c.Model.DecodeStep); math.Abs(got-want) > 1e-6 {
			t.Errorf("engine %d: steps are %v times as long, want %v", number, got, want)
		}
	}
	c.ReplicaSkew = 1
	if got := float64(modelOf(&c, 1).DecodeStep) / float64(c.Model.DecodeStep); math.Abs(got-1-0.6/9) > 1e-6 {
		t.Errorf("skewed, engine 1: steps are %v times as long", got)
	}
	c.Endpoints, c.Replicas = 1, 1
	if modelOf(&c, 0).DecodeStep != c.Model.DecodeStep {
		t.Error("the only engine is slower")
	}
}

// At most max_running slots are in use, and all are free in the end, whenever sequences leave.
func TestEngineSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t)
		g.PrefillSharing = rapid.Bool().Draw(t, "sharing")
		g.PrefillJitter, g.StepJitter = rapid.Float64Range(0, 1).Draw(t, "prefill jitter"),
			rapid.Float64Range(0, 1).Draw(t, "step jitter")
		e := newEngine(g.Model, g.prefillers, g.decoders, 0)
		var seqs []*Sequence
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				s := &Sequence{Prompt: rapid.IntRange(0, 9).Draw(t, "prompt"),
					Output: rapid.IntRange(1, 9).Draw(t, "output")}
				seqs = append(seqs, s)
				e.Add(s)
			case 1:
				if len(seqs) > 0 {
					e.Cancel(rapid.SampledFrom(seqs).Draw(t, "who"))
				}
			case 2:
				e.Advance(e.now.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "pass"))*tick), nil)
			}
			active, queued := 0, 0
			for _, s := range seqs {
				switch s.phase {
				case running:
					active++
				case waiting, handed:
					queued++
				}
			}
			if e.Running() != active || e.Waiting() != queued {
				t.Fatalf("the engine counts %d running and %d waiting; there are %d and %d", e.Running(), e.Waiting(),
					active, queued)
			}
			for _, d := range e.decoders {
				if d.held < 0 || d.held > g.MaxRunning {
					t.Fatalf("a decoder holds %d of at most %d", d.held, g.MaxRunning)
				}
			}
		}
		e.Advance(e.now.Add(time.Hour), nil)
		if _, more := e.Next(); more || e.Running() != 0 || e.Waiting() != 0 {
			t.Fatalf("%d run and %d wait after an hour", e.Running(), e.Waiting())
		}
	})
}
