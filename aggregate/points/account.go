package points

import (
	"math"

	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/histogram"
)

// serverLatencies returns the latencies of a stage from the servers' own histograms. Their names are those of the
// clients' latencies with the prefix server_.
func serverLatencies(a *servermetrics.ServerAccount) (out []sink.Distribution) {
	if a == nil {
		return nil
	}
	unknown := math.NaN()
	for _, l := range []struct {
		name string
		c    *servermetrics.Comparison
	}{{"server_ttft_ms", a.TTFT}, {"server_itl_ms", a.ITL}, {"server_tpot_ms", a.TPOT}, {"server_e2e_ms", a.E2E}} {
		if l.c == nil {
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
