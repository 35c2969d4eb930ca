package recorder

import (
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// turn returns the cell of a request's turn.
func (p *page) turn(q *Request) *cell {
	class := measure.TurnClass(uint32(q.Turn))
	for len(p.turns) <= class {
		p.turns = append(p.turns, cell{})
	}
	return &p.turns[class]
}

// addTurn adds a completed request to the cell of its turn: what tells how latency and the reuse of a prefix cache
// change over a session.
func (c *cell) addTurn(q *Request, o *stream.Observation) {
	c.counts[measure.Completed]++
	c.counts[measure.SharedTokens] += uint64(q.Shared)
	if o.Usage {
		c.counts[measure.InputTokens] += o.InputTokens
	} else {
		c.counts[measure.WithoutUsage]++
	}
	if o.HasCachedTokens {
		c.counts[measure.WithCachedTokens]++
		c.counts[measure.CachedTokens] += o.CachedTokens
	}
	if o.FirstToken != 0 {
		ttft := spatev1.Metric_METRIC_TTFT
		c.values[ttft] = append(c.values[ttft], o.FirstToken.Sub(o.Start).Nanoseconds())
	}
	if o.LastToken != 0 {
		e2e := spatev1.Metric_METRIC_E2E
		c.values[e2e] = append(c.values[e2e], o.LastToken.Sub(o.Start).Nanoseconds())
	}
}
