package aggregate

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// request is one raw request, with which results are compared. Times are nanoseconds since the stage's start.
type request struct {
	agent, endpoint  int
	scheduled, start int64
	firstFrame       int64
	tokens           []int64 // arrivals of token frames, one token each
	class            spatev1.ErrorClass
	status           uint32
}

// metrics returns the values that an agent records for a completed request.
func (r request) metrics() map[spatev1.Metric][]int64 {
	first, last, n := r.tokens[0], r.tokens[len(r.tokens)-1], int64(len(r.tokens))
	m := map[spatev1.Metric][]int64{
		spatev1.Metric_METRIC_TTFT:                  {first - r.start},
		spatev1.Metric_METRIC_TTFT_SCHEDULED:        {first - r.scheduled},
		spatev1.Metric_METRIC_E2E:                   {last - r.start},
		spatev1.Metric_METRIC_E2E_SCHEDULED:         {last - r.scheduled},
		spatev1.Metric_METRIC_SEND_DELAY:            {r.start - r.scheduled},
		spatev1.Metric_METRIC_ISL:                   {100},
		spatev1.Metric_METRIC_OSL:                   {n},
		spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME: {1000},
		spatev1.Metric_METRIC_VLLM_TTFT:             {r.firstFrame - r.start},
	}
	if r.start%3 == 0 { // on a new connection
		m[spatev1.Metric_METRIC_CONNECT], m[spatev1.Metric_METRIC_RTT] = []int64{2000 + r.start%7e6},
			[]int64{1000 + r.start%7e6}
		m[spatev1.Metric_METRIC_DNS], m[spatev1.Metric_METRIC_TCP] = []int64{300 + r.start%1e6},
			[]int64{1200 + r.start%2e6}
		m[spatev1.Metric_METRIC_TLS] = []int64{500 + r.start%3e6}
	}
	if r.firstFrame != first {
		m[spatev1.Metric_METRIC_VLLM_ITL_ADDED] = []int64{first - r.firstFrame}
	}
	for i := 1; i < len(r.tokens); i++ {
		m[spatev1.Metric_METRIC_ITL] = append(m[spatev1.Metric_METRIC_ITL], r.tokens[i]-r.tokens[i-1])
	}
	if n > 1 {
		m[spatev1.Metric_METRIC_TPOT] = []int64{(last - first + (n-1)/2) / (n - 1)}
		m[spatev1.Metric_METRIC_VLLM_TPOT] = []int64{(last - r.firstFrame + (n-1)/2) / (n - 1)}
	}
	return m
}

// end returns when a request ended.
func (r request) end() int64 {
	if len(r.tokens) == 0 {
		return r.start + 1e6
	}
	return r.tokens[len(r.tokens)-1]
}

// recorded returns the snapshots that agents would send for some requests. The last one of each agent has its totals.
// windowOf assigns each request to a window.
func recorded(rec *spatev1.StageRecord, requests []request, windowOf func(request) uint32) []*spatev1.Snapshot {
	var snapshots []*spatev1.Snapshot
	for i := range rec.GetAgents() {
		var own []request
		for _, r := range requests {
			if r.agent == i {
				own = append(own, r)
			}
		}
		snapshots = append(snapshots, agentSnapshots(rec, i, own, windowOf)...)
	}
	return snapshots
}

// agentSnapshots is recorded for one agent.
func agentSnapshots(
	rec *spatev1.StageRecord, agent int, requests []request, windowOf func(request) uint32,
) []*spatev1.Snapshot {
	last, who := uint32(0), rec.GetAgents()[agent]
	for _, r := range requests {
		last = max(last, windowOf(r))
	}
	var snapshots []*spatev1.Snapshot
	for w := range last + 1 {
		s := &spatev1.Snapshot{
			Key: &spatev1.SnapshotKey{RunId: "run-1", Agent: who.GetAgent().GetName(),
				Incarnation: who.GetIncarnation(), Sequence: uint64(w) + 5},
			StageIndex:   rec.GetStage().GetIndex(),
			Revision:     1,
			Window:       w,
			PeakInFlight: 3,
		}
		for e := range rec.GetStage().GetTarget().GetEndpoints() {
			var of []request
			for _, r := range requests {
				if r.endpoint == e && windowOf(r) == w {
					of = append(of, r)
				}
			}
			if len(of) > 0 {
				s.Series = append(s.Series, seriesOf(uint32(e), of))
			}
		}
		s.Shares = sharesOf(w, s.GetSeries())
		snapshots = append(snapshots, s)
	}
	snapshots[last].Totals = totalsOf(snapshots, requests)
	return snapshots
}

// sharesOf returns the shares of requests that were entirely in the window in which they ended.
func sharesOf(window uint32, all []*spatev1.Series) []*spatev1.WindowShare {
	s := &spatev1.WindowShare{Window: window}
	for _, series := range all {
		c := series.GetCounters()
		s.OutputTokens += c.GetOutputTokens()
		s.Chunks += c.GetChunks()
		s.MicroRequests += million * c.GetCompleted()
	}
	return []*spatev1.WindowShare{s}
}

// seriesOf returns what an agent recorded for the requests of one window and endpoint.
func seriesOf(endpoint uint32, requests []request) *spatev1.Series {
	s := &spatev1.Series{Endpoint: endpoint, Counters: &spatev1.Counters{}}
	values := make(map[spatev1.Metric]*histogram.Histogram)
	errors := make(map[errorKey]uint64)
	for _, r := range requests {
		s.Counters.Started++
		if r.class != 0 {
			s.Counters.Failed++
			errors[errorKey{r.class, r.status}]++
			continue
		}
		s.Counters.Completed++
		s.Counters.InputTokens += 100
		s.Counters.OutputTokens += uint64(len(r.tokens))
		s.Counters.Frames += uint64(len(r.tokens))
		s.Counters.TokenFrames += uint64(len(r.tokens))
		s.Counters.Chunks += uint64(len(r.tokens))
		s.Counters.TokensArrived += uint64(len(r.tokens))
		for m, vs := range r.metrics() {
			if values[m] == nil {
				values[m] = histogram.New(histogram.LayoutOf(m))
			}
			for _, v := range vs {
				values[m].Record(v)
			}
		}
	}
	for m := range spatev1.Metric(measure.Count) {
		if values[m] != nil {
			s.Distributions = append(s.Distributions, values[m].Proto(m))
		}
	}
	for key, n := range errors {
		s.Errors = append(s.Errors, &spatev1.ErrorCount{
			Class: key.class, HttpStatus: key.status, Count: n, Example: fmt.Sprintf("example of %v", key.class),
		})
	}
	return s
}

// totalsOf returns an agent's totals.
func totalsOf(snapshots []*spatev1.Snapshot, requests []request) *spatev1.Totals {
	t := &spatev1.Totals{
		Snapshots:          uint64(len(snapshots)),
		Counters:           &spatev1.Counters{},
		StartErrorNs:       250_000,
		ClockUncertaintyNs: 100_000,
	}
	counts := make(map[spatev1.Metric]uint64)
	for _, s := range snapshots {
		for _, series := range s.GetSeries() {
			measure.AddTo(t.Counters, series.GetCounters())
			for _, d := range series.GetDistributions() {
				h, err := histogram.FromProto(d)
				if err != nil {
					panic(err)
				}
				counts[d.GetMetric()] += h.Count()
			}
		}
	}
	for m := range spatev1.Metric(measure.Count) {
		if counts[m] > 0 {
			t.Values = append(t.Values, &spatev1.MetricCount{Metric: m, Count: counts[m]})
		}
	}
	for _, r := range requests {
		if t.FirstStartNs == nil || r.start < *t.FirstStartNs {
			t.FirstStartNs = &r.start
		}
		if t.LastStartNs == nil || r.start > *t.LastStartNs {
			t.LastStartNs = &r.start
		}
		if end := r.end(); t.LastEndNs == nil || end > *t.LastEndNs {
			t.LastEndNs = &end
		}
	}
	return t
}

// mergedInto merges consecutive snapshots of an agent into one that holds all their windows, as an agent does with
// unsent snapshots.
func mergedInto(all []*spatev1.Snapshot) *spatev1.Snapshot {
	first, last := all[0], all[len(all)-1]
	out := &spatev1.Snapshot{
		Key: first.GetKey(), StageIndex: first.GetStageIndex(), Revision: first.GetRevision(), Window: last.GetWindow(),
		FirstWindow: ptr(firstWindow(first)), Totals: last.GetTotals(),
	}
	sums := make(map[uint32]*tally)
	for _, s := range all {
		out.Shares = append(out.Shares, s.GetShares()...)
		out.PeakInFlight = max(out.PeakInFlight, s.GetPeakInFlight())
		for _, series := range s.GetSeries() {
			if sums[series.GetEndpoint()] == nil {
				sums[series.GetEndpoint()] = newTally(measure.All)
			}
			parts, err := decode(series.GetDistributions())
			if err != nil {
				panic(err)
			}
			sums[series.GetEndpoint()].add(series, parts, place{})
		}
	}
	for _, e := range slices.Sorted(maps.Keys(sums)) {
		out.Series = append(out.Series, sums[e].series(e))
	}
	return out
}

// series converts a tally to the message that an agent sends.
func (t *tally) series(endpoint uint32) *spatev1.Series {
	s := &spatev1.Series{Endpoint: endpoint, Counters: t.counters}
	for m := range spatev1.Metric(measure.Count) {
		if t.values[m] != nil {
			s.Distributions = append(s.Distributions, t.values[m].Proto(m))
		}
	}
	for key, e := range t.errors {
		s.Errors = append(s.Errors, &spatev1.ErrorCount{Class: key.class, HttpStatus: key.status, Count: e.count,
			Example: e.example})
	}
	return s
}

// endWindow returns the window in which a request ended.
func endWindow(r request) uint32 { return uint32(r.end() / 1e9) }

// steadyRequests returns a simple load: each agent starts a request every 100 ms, and each request has 4 tokens 10 ms
// apart.
func steadyRequests(agents, each int) []request {
	var requests []request
	for a := range agents {
		for i := range each {
			start := int64(i)*100e6 + int64(a)*1e6
			r := request{agent: a, endpoint: i % 2, scheduled: start - 5000, start: start, firstFrame: start + 20e6}
			for k := range 4 {
				r.tokens = append(r.tokens, start+30e6+int64(k)*10e6)
			}
			requests = append(requests, r)
		}
	}
	return requests
}

// merged merges snapshots, which must all pass the check.
func merged(t testing.TB, rec *spatev1.StageRecord, snapshots []*spatev1.Snapshot) *Stage {
	t.Helper()
	stage := NewStage(rec)
	for _, s := range snapshots {
		if err := CheckSnapshot(s, fixture.RunRecord(1), rec); err != nil {
			t.Fatal(err)
		}
		if err := stage.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return stage
}

// ptr returns a pointer to a value.
func ptr[T any](v T) *T { return &v }

// timed returns a load that ends by time.
func timed(d time.Duration) *spatev1.LoadPoint {
	return &spatev1.LoadPoint{Rate: 2, Arrival: "poisson", Duration: durationpb.New(d)}
}
