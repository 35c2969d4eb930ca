package fits

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
)

// probe is a stage of Poisson arrivals at an endpoint in virtual time, with the results that a search would get of it.
type probe struct {
	config       *config.Config
	isl, osl     int
	warm, length time.Duration
	limits       []*spatev1.Limit
}

// run sends the requests of one stage and measures those after the warm-up, as agents do.
func (p *probe) run(rate float64, seed uint64) series.Outcome {
	v, random := newVirtual(p.config), rand.New(rand.NewPCG(seed, 1))
	end := clock.Instant(p.warm + p.length)
	first, last := map[*engine.Sequence]clock.Instant{}, map[*engine.Sequence]clock.Instant{}
	note := func(which int, to clock.Instant) {
		for _, em := range v.advance(which, to) {
			if em.Produced == 1 {
				first[em.Seq] = em.At
			}
			if em.Produced == em.Seq.Output {
				last[em.Seq] = em.At
				v.outstanding[which]--
			}
		}
	}
	arrives := clock.Instant(0)
	for more := true; more; {
		arrives = arrives.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		more = arrives < end
		until := arrives
		if !more {
			until = math.MaxInt64 // the drain
		}
		for which, at := v.next(); which >= 0 && at <= until; which, at = v.next() {
			note(which, at)
		}
		if more {
			v.send(arrives, fixed(p.isl, p.osl))
		}
	}
	return p.outcome(v.began, first, last, end, rate)
}

// outcome returns what the coordinator would compute from a stage's requests.
func (p *probe) outcome(
	began, first, last map[*engine.Sequence]clock.Instant, end clock.Instant, rate float64,
) series.Outcome {
	o := series.Outcome{}
	values := map[string][]time.Duration{}
	for s, at := range began {
		if at < clock.Instant(p.warm) {
			continue
		}
		o.Completed++
		values["ttft"] = append(values["ttft"], first[s].Sub(at))
		values["e2e"] = append(values["e2e"], last[s].Sub(at))
		values["tpot"] = append(values["tpot"], last[s].Sub(first[s])/time.Duration(max(1, p.osl-1)))
	}
	for _, l := range p.limits {
		v := values[l.GetMetric()]
		slices.Sort(v)
		at := func(percentile float64) *time.Duration { return &v[int(math.Ceil(percentile/100*float64(len(v))))-1] }
		o.Latencies = append(o.Latencies, at(l.GetPercentile()))
		o.Fastest = append(o.Fastest, at(series.FastestPercentile))
	}
	starts, ends := slices.Sorted(maps.Values(began)), slices.Sorted(maps.Values(last))
	within := func(times []clock.Instant, from, to clock.Instant) uint64 {
		before, _ := slices.BinarySearch(times, from)
		all, _ := slices.BinarySearch(times, to)
		return uint64(all - before)
	}
	from := clock.Instant(p.warm)
	half := from + (end-from)/2
	inFlight := func(at clock.Instant) uint64 { return within(starts, 0, at) - within(ends, 0, at) }
	seconds := end.Sub(half).Seconds()
	level, times := 0.0, 0
	for at := from; at < half; at = at.Add(time.Second) {
		level, times = level+float64(inFlight(at)), times+1
	}
	o.Backlog = &series.Backlog{
		Level: level / float64(times), InFlight: inFlight(half), Started: within(starts, half, end),
		Ended: within(ends, half, end),
		Due:   rate * seconds, Seconds: seconds,
	}
	throughput := float64(within(ends, from, end)) / end.Sub(from).Seconds()
	o.Throughput = &throughput
	return o
}

// search runs a search for a rate.
func (p *probe) search(from, to float64, seed uint64) *spatev1.SeriesRecord {
	s := series.New(&spatev1.LoadPoint{Arrival: "poisson", Search: &spatev1.Search{
		Rate: &spatev1.Bounds{From: from, To: to}, Precision: 0.03, Probes: 50, Repeats: 1,
		Keep: &spatev1.Objectives{Latencies: p.limits},
	}})
	for step, ok := s.Next(); ok; step, ok = s.Next() {
		s.Take(step.Number, p.run(step.Value, seed*1000+uint64(step.Number)))
	}
	return s.Record()
}

func atMost(metric string, d time.Duration) *spatev1.Limit {
	return &spatev1.Limit{Metric: metric, Percentile: 99, AtMost: durationpb.New(d)}
}

// fewSlots returns an endpoint with few slots. Its capacity is 29.3 requests of 100:50 per second.
func fewSlots() *config.Config {
	ms := time.Millisecond
	return &config.Config{Replicas: 1, Model: config.Model{PrefillTokensPerSecond: 300_000, DecodeStep: 8 * ms,
		DecodeStepPerRequest: ms / 5, MaxRunning: 16}}
}

// If only the capacity of a model's endpoint limits a search, the search ends near it. The difference, above or below,
// is what such short stages cannot resolve.
func TestSearchFindsTheCapacity(t *testing.T) {
	ms := time.Millisecond
	split := &config.Config{Replicas: 2, PrefillEngines: 3, Model: config.Model{PrefillTokensPerSecond: 50_000,
		DecodeStep:           5 * ms,
		DecodeStepPerRequest: ms / 20, MaxRunning: 64}}
	for name, c := range map[string]struct {
		probe  probe
		within float64
	}{
		"TPOT alone, 30 s": {probe{config: fewSlots(), isl: 100, osl: 50, length: 30 * time.Second,
			limits: []*spatev1.Limit{atMost("tpot", 50*ms)}}, 0.12},
		"TPOT alone, 120 s": {probe{config: fewSlots(), isl: 100, osl: 50, length: 120 * time.Second,
			limits: []*spatev1.Limit{atMost("tpot", 50*ms)}}, 0.05},
		"E2E, disaggregated, 30 s": {probe{config: split, isl: 3000, osl: 100, length: 30 * time.Second,
			limits: []*spatev1.Limit{atMost("e2e", 2000*ms)}}, 0.07},
		"E2E, disaggregated, 120 s": {probe{config: split, isl: 3000, osl: 100, length: 120 * time.Second,
			limits: []*spatev1.Limit{atMost("e2e", 2000*ms)}}, 0.05},
	} {
		p, capacity := c.probe, Capacity(c.probe.config, c.probe.isl, c.probe.osl)
		p.warm = 3 * time.Second
		for seed := range uint64(3) {
			rec := p.search(2, 500, seed+1)
			off := rec.GetLimits()[0].GetKept()/capacity - 1
			t.Logf("%s: kept %.4g of %.4g: %+.1f %%, %d probes, %s", name, rec.GetLimits()[0].GetKept(), capacity, 100*off,
				rec.GetStages(), rec.GetReason())
			if math.Abs(off) > c.within || !rec.GetConverged() {
				t.Errorf("%s: found %v, capacity %.4g", name, rec, capacity)
			}
		}
	}
}

// A search with a latency limit ends where a fine sweep by hand finds the limit. The sweep has rates 1 % apart with
// three stages each. The search must end between the first rate at which any stage breaks the limit and the last rate
// at which any stage keeps it, give or take 5 %.
func TestSearchAgreesWithSweep(t *testing.T) {
	ms := time.Millisecond
	slots := &config.Config{Replicas: 1, Model: config.Model{PrefillTokensPerSecond: 30_000, DecodeStep: 8 * ms,
		DecodeStepPerRequest: ms / 5, MaxRunning: 64}}
	p := probe{config: slots, isl: 500, osl: 50, warm: 3 * time.Second, length: 60 * time.Second,
		limits: []*spatev1.Limit{atMost("ttft", 300*ms), atMost("tpot", 25*ms)}}
	firstBroken, lastKept := math.Inf(1), 0.0
	for rate := 40.0; rate < 66; rate *= 1.01 {
		broken := 0
		for seed := range uint64(3) {
			if kept, _ := series.Judge(&spatev1.Objectives{Latencies: p.limits},
				p.run(rate, 77*seed+uint64(rate))); !kept {
				broken++
			}
		}
		if broken > 0 {
			firstBroken = min(firstBroken, rate)
		}
		if broken < 3 {
			lastKept = rate
		}
	}
	t.Logf("by hand: all keep below %.4g, none above %.4g", firstBroken, lastKept)
	for seed := range uint64(3) {
		rec := p.search(2, 500, seed+1)
		t.Logf("kept %.4g in %d probes: %s", rec.GetLimits()[0].GetKept(), rec.GetStages(), rec.GetSentence())
		l := rec.GetLimits()[0]
		if l.GetBroke() < firstBroken*0.95 || l.GetKept() > lastKept*1.05 || !rec.GetConverged() {
			t.Errorf("found %v", rec)
		}
	}
}

// How often a stage counts as not sustained by the server, by the offered share of the server's capacity. The comment
// of sustained in package series has these figures.
func TestSustained(t *testing.T) {
	const stages = 40
	p := probe{config: fewSlots(), isl: 100, osl: 50, warm: 3 * time.Second, length: 30 * time.Second}
	for _, c := range []struct {
		load        float64
		least, most int
	}{{0.3, 0, 1}, {0.6, 0, 1}, {1.2, 36, stages}, {3, stages, stages}} {
		broken := 0
		for seed := range uint64(stages) {
			rate := c.load * Capacity(p.config, p.isl, p.osl)
			s := series.New(&spatev1.LoadPoint{Arrival: "poisson", Search: &spatev1.Search{
				Rate: &spatev1.Bounds{From: rate, To: rate}, Precision: 0.03, Probes: 1, Repeats: 1,
				Keep: &spatev1.Objectives{},
			}})
			s.Take(0, p.run(rate, seed+1))
			if s.Record().GetLimits()[0].GetBroke() > 0 {
				broken++
			}
		}
		t.Logf("%.0f %% of the capacity: %d of %d", 100*c.load, broken, stages)
		if broken < c.least || broken > c.most {
			t.Errorf("at %.0f %% of the capacity %d of %d stages are taken for overloaded, want %d to %d", 100*c.load,
				broken, stages, c.least, c.most)
		}
	}
}
