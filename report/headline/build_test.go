package headline

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/chance"
)

// load is a stage to make up: a closed loop, or with a rate an open one, whose requests all take about as long.
type load struct {
	target, workload string
	concurrency      uint32
	rate             float64
	ttft, tpot       float64 // ms
	seconds          float64
	most             int     // requests; 0: as many as start in that time
	noise            float64 // relative standard deviation of the times
	drift            float64 // relative growth of the times from the run's start, in a second
	fail             int     // each such request fails; 0: none does
	repeat           uint32
	slo              *results.Goodput
	whole            bool // answers in one piece, without tokens
	verdict          trust.Verdict
	check            string // words of the check behind the verdict
	touches          string // number that the check doubts
	missing          string // the stage is incomplete
	words            string // of the load, in place of the usual ones
}

const osl = 50

// built is a run to make up.
type built struct {
	result *results.Result
	rows   [][]compare.Request
	at     float64 // seconds since the start of the run
}

// run returns a run of stages with request rows.
func run(loads ...load) *compare.Run {
	b := &built{result: &results.Result{Run: results.RunResult{ID: "run", Complete: true, Outcome: new("done")}}}
	for i, l := range loads {
		b.add(uint32(i), l)
	}
	b.repeats()
	return &compare.Run{Name: "run", Result: b.result, Requests: func(stage uint32, each func(*compare.Request) error) error {
		for i := range b.rows[stage] {
			if err := each(&b.rows[stage][i]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// add makes up a stage.
func (b *built) add(index uint32, l load) {
	if l.target == "" {
		l.target = "vllm"
	}
	if l.workload == "" {
		l.workload = "500:50"
	}
	if l.seconds == 0 {
		l.seconds = 30
	}
	random := rand.New(rand.NewPCG(uint64(index), 7))
	about := func(ms, at float64) int64 {
		return int64(ms * 1e6 * max(0.05, 1+l.noise*random.NormFloat64()) * (1 + l.drift*(b.at+at)))
	}
	var rows []compare.Request
	request := func(start int64) (end int64) {
		seconds := float64(start) / 1e9
		r := compare.Request{Index: uint64(len(rows)), StartNs: start, BodyHash: uint64(len(rows)), ISLAsked: 500,
			OSLAsked: osl, Completed: l.fail == 0 || len(rows)%l.fail != 0}
		first := start + about(l.ttft, seconds)
		last := first + (osl-1)*about(l.tpot, seconds)
		if !r.Completed {
			last = start + 1e6
		}
		r.EndNs = last
		if r.Completed {
			r.LastTokenNs, r.OutputTokens = &last, osl
			if !l.whole {
				r.FirstTokenNs = &first
			}
		}
		rows = append(rows, r)
		return last
	}
	starts := func(n int) bool { return l.most == 0 || n < l.most }
	if l.rate > 0 {
		for at := 0.0; at < l.seconds && starts(len(rows)); at += random.ExpFloat64() / l.rate {
			request(int64(at * 1e9))
		}
	}
	free := make([]int64, l.concurrency)
	for next := 0; l.rate == 0 && starts(len(rows)); {
		for slot := range free {
			if free[slot] < free[next] {
				next = slot
			}
		}
		if float64(free[next]) >= l.seconds*1e9 {
			break
		}
		free[next] = request(free[next])
	}
	s := stageOf(index, l, rows, b.at)
	b.at += *s.DurationS
	b.rows, b.result.Stages = append(b.rows, rows), append(b.result.Stages, s)
	b.result.Run.StagesPlanned++
	if v := s.Trust.Verdict; b.result.Run.Verdict == nil || v.Worse(*b.result.Run.Verdict) == v {
		b.result.Run.Verdict = &v
	}
}

// stageOf returns the result of requests.
func stageOf(index uint32, l load, rows []compare.Request, at float64) results.StageResult {
	ttft, tpot, e2e := histogram.New(histogram.Times), histogram.New(histogram.Times), histogram.New(histogram.Times)
	s := results.StageResult{Index: index, Target: l.target, Workload: l.workload, Stream: !l.whole, Complete: l.missing == "",
		StartTime: new(time.Unix(1_700_000_000, 0).Add(time.Duration(at * 1e9)).UTC().Format(time.RFC3339Nano)),
		Trust:     trust.Trust{Verdict: trust.Valid}, Load: results.Load{Repeat: l.repeat, Concurrency: &l.concurrency,
			Words: fmt.Sprintf("concurrency %d", l.concurrency)}}
	if l.rate > 0 {
		s.Load.Concurrency, s.Load.Rate, s.Load.Words = nil, &l.rate, fmt.Sprintf("%g req/s poisson", l.rate)
	}
	if l.words != "" {
		s.Load = results.Load{Words: l.words, ReplaySpeed: new(1.0)}
	}
	if l.repeat > 0 {
		s.Load.Words += fmt.Sprintf(", repeat %d", l.repeat)
	}
	if l.missing != "" {
		s.Missing = []string{l.missing}
	}
	if l.verdict != "" {
		s.Trust = trust.Trust{Verdict: l.verdict, Checks: []trust.Check{{Name: "receive_lag", Verdict: l.verdict, Words: l.check,
			Touches: []string{l.touches}}}}
	}
	end, good := int64(0), uint64(0)
	for _, r := range rows {
		s.Requests.Started++
		end = max(end, r.EndNs)
		if !r.Completed {
			s.Requests.Failed++
			continue
		}
		s.Requests.Completed++
		e2e.Record(*r.LastTokenNs - r.StartNs)
		if r.FirstTokenNs == nil {
			continue
		}
		first, each := *r.FirstTokenNs-r.StartNs, (*r.LastTokenNs-*r.FirstTokenNs)/(osl-1)
		ttft.Record(first)
		tpot.Record(each)
		within := func(ns int64, limit *float64) bool { return limit == nil || float64(ns) <= *limit*1e6 }
		if g := l.slo; g != nil && within(first, g.TTFTMs) && within(each, g.TPOTMs) {
			good++
		}
	}
	seconds := float64(end) / 1e9
	s.DurationS = &seconds
	s.TTFT, s.TPOT, s.E2E = ttft.Summary(1e6), tpot.Summary(1e6), e2e.Summary(1e6)
	if s.Requests.Failed > 0 {
		s.Errors = map[string]uint64{"http_500": s.Requests.Failed - 1, "connect": 1}
	}
	if s.Requests.Completed > 0 {
		s.RequestThroughput = new(float64(s.Requests.Completed) / seconds)
		if !l.whole {
			s.OutputTokenThroughput = new(osl * *s.RequestThroughput)
		}
	}
	if l.slo != nil {
		g := *l.slo
		g.Requests, g.Share = good, new(float64(good)/float64(s.Requests.Completed+s.Requests.Failed))
		s.Goodput = &g
	}
	return s
}

// repeats takes stages of the same load together.
func (b *built) repeats() {
	byLoad := map[string][]int{}
	var keys []string
	for i, s := range b.result.Stages {
		k := s.Target + s.Workload + s.Load.Shared()
		if byLoad[k] = append(byLoad[k], i); len(byLoad[k]) == 2 {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		first := b.result.Stages[byLoad[k][0]]
		r := results.Repeats{Target: first.Target, Workload: first.Workload, Load: first.Load.Shared(),
			Verdict: trust.Valid, Latencies: first.Latencies, Goodput: first.Goodput, DurationS: first.DurationS}
		for _, name := range []string{"request_throughput", "output_token_throughput"} {
			var values []float64
			if first.Number(name) == nil {
				continue
			}
			for _, i := range byLoad[k] {
				values = append(values, *b.result.Stages[i].Number(name))
			}
			mean, spread := chance.Mean(values)
			margin := spread.Margin(0.95)
			r.Spreads = append(r.Spreads,
				results.RepeatSpread{Metric: name, Mean: mean, Low: mean - margin, High: mean + margin})
		}
		if r.RequestThroughput = &r.Spreads[0].Mean; len(r.Spreads) > 1 {
			r.OutputTokenThroughput = &r.Spreads[1].Mean
		}
		for _, i := range byLoad[k] {
			s := b.result.Stages[i]
			r.Stages, r.Completed = append(r.Stages, s.Index), r.Completed+s.Requests.Completed
			r.Started += s.Requests.Started
		}
		b.result.Repeats = append(b.result.Repeats, r)
	}
}

// each returns the loads for each concurrency. The times are those without load, growing with it as those of a server
// with so many places.
func each(l load, places float64, concurrency ...uint32) (loads []load) {
	for _, c := range concurrency {
		one := l
		one.concurrency = c
		waiting := max(0, float64(c)-places) / places
		one.tpot = l.tpot * (1 + 0.03*min(float64(c), places))
		one.ttft = l.ttft*(1+0.05*min(float64(c), places)) + waiting*osl*one.tpot
		loads = append(loads, one)
	}
	return loads
}

// turnsOf returns loads of two targets in turns, each so many times. The second target's times are those of the first
// times faster.
func turnsOf(l load, faster float64, times int) (loads []load) {
	for n := range times {
		a, b := l, l
		a.target, b.target, a.repeat, b.repeat = "base", "new", uint32(n), uint32(n)
		b.ttft, b.tpot = l.ttft*faster, l.tpot*faster
		loads = append(loads, a, b)
	}
	return loads
}
