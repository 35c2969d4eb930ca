package points

import (
	"math"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/sink"
)

// ofServers are the latencies of a stage by the servers' own histograms, under the names of the clients' with server_
// before them.
func ofServers(a *aggregate.ServerAccount) (out []sink.Distribution) {
	if a == nil {
		return nil
	}
	unknown := math.NaN()
	for _, l := range []struct {
		name string
		c    *aggregate.Comparison
	}{{"server_ttft_ms", a.TTFT}, {"server_itl_ms", a.ITL}, {"server_tpot_ms", a.TPOT}, {"server_e2e_ms", a.E2E}} {
		if l.c == nil {
			continue
		}
		s := l.c.Server
		out = append(out, sink.Distribution{
			Name: l.name, Count: s.Count, Mean: s.Mean, Std: unknown, Min: unknown, Max: unknown,
			P50: interpolated(s.P50), P90: unknown, P95: unknown, P99: interpolated(s.P99), P99_9: unknown,
		})
	}
	return out
}

// interpolated is the value of a quantile, no number if it is not known.
func interpolated(q *aggregate.ServerQuantile) float64 {
	if q == nil || q.Value == nil {
		return math.NaN()
	}
	return *q.Value
}
