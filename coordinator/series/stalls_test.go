package series_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/spate-load/spate/coordinator/series"
)

// queue is a server in virtual time: requests wait for one of its slots, and each takes as long as the others. Now and
// then it stalls: a stall starts in a share of the seconds, and nothing happens in it. Times are in seconds.
type queue struct {
	slots            int
	service, prefill float64
	share, stall     float64
}

// pause is a stall, with the time that was lost before it.
type pause struct{ from, to, before float64 }

// pauses draws the stalls from some seconds before the probe up to an end.
func (q queue) pauses(random *rand.Rand, end float64) (all []pause) {
	lost, last := 0.0, math.Inf(-1)
	for second := -5.0; second < end; second++ {
		if random.Float64() >= q.share {
			continue
		}
		from := second + random.Float64()
		to := from + q.stall
		if from = max(from, last); from < to {
			all, lost, last = append(all, pause{from, to, lost}), lost+to-from, to
		}
	}
	return all
}

// worked returns how long the server has worked up to a time.
func worked(all []pause, at float64) float64 {
	i := sort.Search(len(all), func(i int) bool { return all[i].from > at })
	if i == 0 {
		return at
	}
	p := all[i-1]
	return at - p.before - (min(at, p.to) - p.from)
}

// passed is the inverse of worked.
func passed(all []pause, work float64) float64 {
	i := sort.Search(len(all), func(i int) bool { return all[i].from-all[i].before >= work })
	if i == 0 {
		return work
	}
	p := all[i-1]
	return work + p.before + p.to - p.from
}

// floats is a heap.
type floats []float64

func (f floats) Len() int           { return len(f) }
func (f floats) Less(i, j int) bool { return f[i] < f[j] }
func (f floats) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *floats) Push(any)          {}
func (f *floats) Pop() any          { return nil }

// warm is the warm-up of a probe in seconds.
const warm = 1

// probe returns what a stage of Poisson arrivals measures.
func (q queue) probe(rate, length, percentile float64, seed uint64) series.Outcome {
	random := rand.New(rand.NewPCG(seed, 1))
	pauses := q.pauses(random, 10*(warm+length))
	free := make(floats, q.slots)
	for i := range free {
		free[i] = math.Inf(-1)
	}
	var ttft []time.Duration
	completed := 0
	for at := random.ExpFloat64() / rate; at < warm+length; at += random.ExpFloat64() / rate {
		start := max(worked(pauses, at), free[0])
		free[0] = start + q.service
		heap.Fix(&free, 0)
		if end := passed(pauses, start+q.service); end >= warm && end < warm+length {
			completed++
		}
		if at >= warm {
			ttft = append(ttft, time.Duration((passed(pauses, start+q.prefill)-at)*float64(time.Second)))
		}
	}
	o := series.Outcome{Completed: uint64(len(ttft)), Throughput: new(float64(completed) / length)}
	slices.Sort(ttft)
	value := func(percentile float64) []*time.Duration {
		if len(ttft) == 0 {
			return []*time.Duration{nil}
		}
		return []*time.Duration{&ttft[max(0, int(math.Ceil(percentile/100*float64(len(ttft))))-1)]}
	}
	o.Latencies, o.Fastest = value(percentile), value(series.FastestPercentile)
	return o
}

// stalled is a case of TestSearchSurvivesStalls.
type stalled struct {
	share, length, percentile float64
}

// server returns the server: it completes 94 requests per second.
func (c stalled) server() queue {
	return queue{slots: 16, service: 0.17, prefill: 0.02, share: c.share, stall: 1.5}
}

// run returns what a probe measures.
func (c stalled) run(rate float64, seed uint64) series.Outcome {
	return c.server().probe(rate, c.length, c.percentile, seed)
}

// kept returns the share of many probes at a rate that keep the limit.
func (c stalled) kept(rate float64) (share float64) {
	const probes = 200
	for seed := range uint64(probes) {
		if *c.run(rate, seed+1e9).Latencies[0] <= stallLimit {
			share += 1. / probes
		}
	}
	return share
}

// truth returns the highest rate at which most probes keep the limit.
func (c stalled) truth() (truth float64) {
	for rate := 80.0; rate < 105; rate *= 1.01 {
		if c.kept(rate) >= 0.5 {
			truth = rate
		}
	}
	return truth
}

const stallLimit = 300 * time.Millisecond

// searches plays searches for the truth, and returns how far off they are, and how many probes they take on average.
func (c stalled) searches(t *testing.T, truth float64, many uint64) (off []float64, probes float64) {
	for number := range many {
		l := template(1, 200, true)
		l.Search.Keep.Latencies[0].AtMost.Nanos = int32(stallLimit)
		s := series.New(l)
		steps := play(t, s, func(step series.Step) series.Outcome {
			return c.run(step.Value, 1000*number+uint64(step.Number))
		})
		probes += float64(len(steps)) / float64(many)
		off = append(off, math.Abs(s.Record().GetLimits()[0].GetKept()/truth-1))
	}
	return off, probes
}

// Of 200 searches on a server that stalls for 1.5 s in 2 % of its seconds, 95 % end within 10 % of the highest load at
// which most probes keep the limit, and none beyond 25 %, in at most twice the probes of a quiet server.
// docs/accuracy.md has the table of this test.
func TestSearchSurvivesStalls(t *testing.T) {
	const many = 200
	t.Log("| seconds with a stall | probes of | percentile | truth | within 5 % | within 10 % | beyond 25 % | probes |")
	quiet := 0.0
	for _, c := range []stalled{{0, 10, 99}, {0.005, 10, 99}, {0.02, 10, 99}} {
		truth := c.truth()
		off, probes := c.searches(t, truth, many)
		within := func(most float64) (n int) {
			for _, v := range off {
				if v <= most {
					n++
				}
			}
			return n
		}
		t.Logf("| %.1f %% | %v s | p%v | %.1f | %d | %d | %d | %.1f |", 100*c.share, c.length, c.percentile, truth,
			within(0.05), within(0.1), many-within(0.25), probes)
		if c.share == 0 {
			quiet = probes
		}
		if within(0.1) < many*95/100 || within(0.25) < many || probes > 2*quiet {
			t.Errorf("off by %v, in %.1f probes; %.1f on the quiet server", slices.Max(off), probes, quiet)
		}
	}
}
