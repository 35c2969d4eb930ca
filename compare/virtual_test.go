package compare

import (
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
)

// setting is a load on an engine, in virtual time: the simulator's engine without a clock and without HTTP.
type setting struct {
	name        string
	model       func(*config.Model)
	concurrency int     // closed loop
	rate        float64 // open loop
	duration    time.Duration
	osl         int
	fixed       bool // all requests have the same lengths
}

// slower makes an engine's decoding take longer by a share.
func slower(m *config.Model, by float64) {
	m.DecodeStep = time.Duration(float64(m.DecodeStep) * (1 + by))
	m.DecodeStepPerRequest = time.Duration(float64(m.DecodeStepPerRequest) * (1 + by))
}

// world is one run of a setting.
type world struct {
	setting
	engine   engine.Model
	lengths  *rand.Rand // of the plan: equal in all runs
	chance   *rand.Rand // of the run
	arrives  clock.Instant
	requests []Request
	number   map[*engine.Sequence]int
}

// run runs a setting, with the chance of a seed, on an engine that is slower by a share.
func (s setting) run(seed uint64, by float64) *Run {
	c := config.Default()
	c.Seed = seed
	c.Model.PrefillTokensPerSecond, c.Model.MaxRunning = 60_000, 32
	c.Model.StepJitter, c.Model.PrefillJitter = 0.1, 0.2
	if s.model != nil {
		s.model(&c.Model)
	}
	slower(&c.Model, by)
	w := &world{setting: s, engine: engine.New(&c, 0, 0), number: make(map[*engine.Sequence]int),
		lengths: rand.New(rand.NewPCG(7, 7)), chance: rand.New(rand.NewPCG(seed, 1))}
	for range s.concurrency {
		w.send(0)
	}
	for w.step() {
	}
	stage := w.result()
	return &Run{Name: s.name, Requests: those(w.requests),
		Result: &results.Result{Stages: []results.StageResult{stage}}}
}

// those passes on requests.
func those(requests []Request) func(uint32, func(*Request) error) error {
	return func(_ uint32, each func(*Request) error) error {
		for i := range requests {
			if err := each(&requests[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// step moves the engine to its next event, or to the next arrival if that is sooner. It returns false at the end.
func (w *world) step() bool {
	at, busy := w.engine.Next()
	if w.rate > 0 && w.arrives < clock.Instant(w.duration) && (!busy || w.arrives <= at) {
		w.send(w.arrives)
		w.arrives = w.arrives.Add(time.Duration(w.lengths.ExpFloat64() / w.rate * float64(time.Second)))
		return true
	}
	if !busy {
		return false
	}
	for _, e := range w.engine.Advance(at, nil) {
		if w.take(e) && w.concurrency > 0 && at < clock.Instant(w.duration) {
			w.send(at)
		}
	}
	return true
}

// send starts a request.
func (w *world) send(at clock.Instant) {
	isl, osl := 300, w.osl
	if !w.fixed {
		isl, osl = isl/2+w.lengths.IntN(isl), osl/2+w.lengths.IntN(osl)
	}
	s := &engine.Sequence{Prompt: isl, Output: osl, Noise: w.chance.NormFloat64()}
	w.number[s] = len(w.requests)
	n := uint64(len(w.requests))
	w.requests = append(w.requests, Request{Index: n, BodyHash: n, ISLAsked: uint32(isl), OSLAsked: uint32(osl),
		StartNs: int64(at)})
	w.engine.Advance(at, nil)
	w.engine.Add(s)
}

// take records a token, and reports whether it was a request's last one.
func (w *world) take(e engine.Emission) bool {
	r, at := &w.requests[w.number[e.Seq]], int64(e.At)
	if r.FirstTokenNs == nil {
		r.FirstTokenNs = &at
	} else {
		r.ITLNs = append(r.ITLNs, at-*r.LastTokenNs)
	}
	r.LastTokenNs = &at
	if e.Produced < e.Seq.Output {
		return false
	}
	r.EndNs, r.OutputTokens, r.Completed = at, uint64(e.Produced), true
	return true
}

// result returns the result of the stage.
func (w *world) result() results.StageResult {
	var all [len(latencies)]*histogram.Histogram
	for i := range all {
		all[i] = histogram.New(histogram.Times)
	}
	tokens, end := uint64(0), int64(0)
	for i := range w.requests {
		r := &w.requests[i]
		all[ttft].Record(*r.FirstTokenNs - r.StartNs)
		all[tpot].Record(tokenTime(r))
		all[e2e].Record(*r.LastTokenNs - r.StartNs)
		for _, gap := range r.ITLNs {
			all[itl].Record(gap)
		}
		tokens, end = tokens+r.OutputTokens, max(end, r.EndNs)
	}
	seconds := float64(end-w.requests[0].StartNs) / nanosPerSecond
	n := uint64(len(w.requests))
	return results.StageResult{Target: "engine", Workload: "mixed", Load: results.Load{Words: "load"}, Complete: true,
		Trust: trust.Trust{Verdict: trust.Valid}, Seed: 7, OutputTokens: &tokens, DurationS: &seconds,
		Requests:              results.Requests{Outcomes: results.Outcomes{Started: n, Completed: n}},
		RequestThroughput:     new(float64(n) / seconds),
		OutputTokenThroughput: new(float64(tokens) / seconds),
		Latencies: results.Latencies{TTFT: all[ttft].Summary(nanosPerMs), TPOT: all[tpot].Summary(nanosPerMs),
			ITL: all[itl].Summary(nanosPerMs), E2E: all[e2e].Summary(nanosPerMs)},
	}
}
