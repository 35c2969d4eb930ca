package main

import (
	"math"
	"math/rand/v2"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// variants is how many different windows there are: enough that merged histograms look like those of many machines, and
// that a thousand agents send no window twice at once.
const variants = 1024

// gapsOfRow is how many token gaps a row has.
const gapsOfRow = 50

// spread is the lognormal distribution of a metric, given by its median and sigma. With a sigma of 0.3, most of a few
// hundred values have a bin of their own.
type spread struct {
	metric        spatev1.Metric
	median, sigma float64
}

// contents are the ten distributions of a window.
var contents = []spread{
	{spatev1.Metric_METRIC_TTFT, 300e6, 0.5},
	{spatev1.Metric_METRIC_TTFT_SCHEDULED, 310e6, 0.5},
	{spatev1.Metric_METRIC_E2E, 4e9, 0.3},
	{spatev1.Metric_METRIC_E2E_SCHEDULED, 4.1e9, 0.3},
	{spatev1.Metric_METRIC_TPOT, 20e6, 0.3},
	{spatev1.Metric_METRIC_ITL, 18e6, 0.6},
	{spatev1.Metric_METRIC_SEND_DELAY, 60e3, 0.7},
	{spatev1.Metric_METRIC_ISL, 3000, 0.4},
	{spatev1.Metric_METRIC_OSL, 150, 0.4},
	{spatev1.Metric_METRIC_RECEIVE_LAG, 30e3, 0.8},
}

// makeSeries makes the measurements of the windows.
func makeSeries(values int) []*spatev1.Series {
	random := rand.New(rand.NewPCG(1, uint64(values)))
	out := make([]*spatev1.Series, variants)
	for i := range out {
		out[i] = &spatev1.Series{Counters: counters(values, random)}
		for _, c := range contents {
			h := histogram.New(histogram.LayoutOf(c.metric))
			for range values {
				h.Record(int64(c.median * math.Exp(c.sigma*random.NormFloat64())))
			}
			out[i].Distributions = append(out[i].Distributions, h.Proto(c.metric))
		}
	}
	return out
}

// counters returns the counters of a window: as many requests as there are values, and tokens that vary.
func counters(values int, random *rand.Rand) *spatev1.Counters {
	n := uint64(values)
	vary := func(mean uint64) uint64 { return uint64(float64(mean) * (1 + 0.1*(random.Float64()-0.5))) }
	frames := vary(150 * n)
	return &spatev1.Counters{
		Started: n, Completed: n, InputTokens: vary(3000 * n), OutputTokens: vary(150 * n), Frames: frames,
		TokensArrived: frames, TokenFrames: vary(150 * n), Chunks: vary(150 * n),
	}
}

// shares spreads the requests of a window over that window and the four before it, as for requests that take 5 s.
func shares(of *spatev1.Counters, window int) (all []*spatev1.WindowShare) {
	const windows, million = 5, 1_000_000
	rest := &spatev1.WindowShare{
		Window: uint32(window), OutputTokens: of.GetOutputTokens(), Chunks: of.GetChunks(),
		MicroRequests: million * of.GetCompleted(),
	}
	for i := range min(windows-1, window) {
		s := &spatev1.WindowShare{
			Window: uint32(window - min(windows-1, window) + i), OutputTokens: of.GetOutputTokens() / windows,
			Chunks: of.GetChunks() / windows, MicroRequests: million * of.GetCompleted() / windows,
		}
		rest.OutputTokens, rest.Chunks = rest.OutputTokens-s.OutputTokens, rest.Chunks-s.Chunks
		rest.MicroRequests -= s.MicroRequests
		all = append(all, s)
	}
	return append(all, rest)
}

// totals returns the totals of an agent, which has one snapshot in each window.
func (a *agent) totals() *spatev1.Totals {
	t := &spatev1.Totals{Snapshots: uint64(a.windows), Counters: &spatev1.Counters{}}
	for window := range a.windows {
		measure.AddTo(t.Counters, a.measured(window).GetCounters())
	}
	for _, c := range contents {
		t.Values = append(t.Values, &spatev1.MetricCount{Metric: c.metric, Count: uint64(a.values) * uint64(a.windows)})
	}
	return t
}

// measured returns what the agent measured in a window.
func (a *agent) measured(window int) *spatev1.Series {
	return a.series[(7*a.number+window)%variants]
}

// makeRows makes the rows of a window.
func makeRows(values int) []*spatev1.RequestRecord {
	random := rand.New(rand.NewPCG(2, uint64(values)))
	rows := make([]*spatev1.RequestRecord, values)
	for i := range rows {
		start := int64(i) * 1e6
		ttft := start + int64(300e6*random.ExpFloat64())
		gaps := make([]int64, gapsOfRow)
		last := ttft
		for g := range gaps {
			gaps[g] = int64(20e6 * random.ExpFloat64())
			last += gaps[g]
		}
		tokens, prompt := uint64(gapsOfRow+1), uint64(3000)
		rows[i] = &spatev1.RequestRecord{
			Index: uint64(i), ScheduledNs: start, StartNs: start, FirstTokenNs: &ttft, LastTokenNs: &last, EndNs: last,
			ItlNs:    gaps,
			IslAsked: 3000, OslAsked: gapsOfRow + 1, InputTokens: &prompt, OutputTokens: &tokens, Usage: true,
			TokenFrames: tokens,
			HttpStatus:  200, BodyHash: random.Uint64(), FinishReason: "stop",
		}
	}
	return rows
}
