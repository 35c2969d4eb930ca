package points

import (
	"math"
	"slices"

	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/histogram"
)

// withServerLatencies adds the latencies from the servers' own histograms to the distributions of a stage. Their names
// are those of the clients' latencies with the prefix server_. A name that the stage already has is not added again:
// servers may also report server_ttft_ms in their streams, and those values are exact and in the windows too.
func withServerLatencies(out []sink.Distribution, a *servermetrics.ServerAccount) []sink.Distribution {
	if a == nil {
		return out
	}
	unknown := math.NaN()
	for _, l := range []struct {
		name string
		c    *servermetrics.Comparison
	}{{"server_ttft_ms", a.TTFT}, {"server_itl_ms", a.ITL}, {"server_tpot_ms", a.TPOT}, {"server_e2e_ms", a.E2E}} {
		if l.c == nil || slices.ContainsFunc(out, func(d sink.Distribution) bool { return d.Name == l.name }) {
			continue
		}
		s := l.c.Server
		out = append(out, sink.Distribution{
			Name: l.name,
			Summary: histogram.Summary{
				Count: s.Count, Mean: s.Mean, Std: unknown, Min: unknown, Max: unknown,
				P50: interpolated(s.P50), P90: unknown, P95: unknown, P99: interpolated(s.P99), P99_9: unknown,
			},
		})
	}
	return out
}

// interpolated returns the value of a quantile, or NaN if it is not known.
func interpolated(q *servermetrics.ServerQuantile) float64 {
	if q == nil || q.Value == nil {
		return math.NaN()
	}
	return *q.Value
}
