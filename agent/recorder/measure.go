package recorder

import (
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// measure records a measured request that has ended. The shard is locked.
func (s *Shard) measure(c *cell, q *Request, o *stream.Observation) {
	s.client(c, q, o)
	switch {
	case o.Cancelled:
		s.count(c, cancelled, 1)
	case o.Err != nil:
		s.count(c, failed, 1)
		c.fail(o.Err.Class, o.Err.HTTPStatus, 1, o.Err.Message)
		s.since(c, spatev1.Metric_METRIC_FAILURE_TIME, o.End, o.Start)
	default:
		s.count(c, completed, 1)
		s.latencies(c, q, o)
		s.tokens(c, q, o)
		if s.config.SLO.kept(o) {
			s.count(c, good, 1)
		}
	}
}

// client records what is about this agent rather than about the server, and so counts whatever became of the request.
func (s *Shard) client(c *cell, q *Request, o *stream.Observation) {
	s.since(c, spatev1.Metric_METRIC_SEND_DELAY, o.Start, q.Scheduled)
	s.lags(c, o.Lags)
	if o.Connected {
		s.count(c, connections, 1)
	}
	s.count(c, coalescedReads, o.CoalescedReads)
	s.count(c, unstampedFrames, o.UnstampedFrames)
}

// lags records receive lags that were not handed over yet.
func (s *Shard) lags(c *cell, lags []int64) {
	for _, lag := range lags {
		s.value(c, spatev1.Metric_METRIC_RECEIVE_LAG, lag)
	}
}

// latencies records the times of a completed request.
func (s *Shard) latencies(c *cell, q *Request, o *stream.Observation) {
	s.since(c, spatev1.Metric_METRIC_E2E, o.LastToken, o.Start)
	s.since(c, spatev1.Metric_METRIC_E2E_SCHEDULED, o.LastToken, q.Scheduled)
	if o.Connected {
		s.connected(c, o)
	}
	if !o.Whole {
		s.streamed(c, q, o)
	}
}

// connected records the times of opening a connection.
func (s *Shard) connected(c *cell, o *stream.Observation) {
	s.value(c, spatev1.Metric_METRIC_CONNECT, o.Connect.Nanoseconds())
	s.value(c, spatev1.Metric_METRIC_TCP, o.TCP.Nanoseconds())
	if o.DNS > 0 {
		s.value(c, spatev1.Metric_METRIC_DNS, o.DNS.Nanoseconds())
	}
	if o.TLS > 0 {
		s.value(c, spatev1.Metric_METRIC_TLS, o.TLS.Nanoseconds())
	}
}

// streamed records what only a stream shows.
func (s *Shard) streamed(c *cell, q *Request, o *stream.Observation) {
	s.since(c, spatev1.Metric_METRIC_TTFT, o.FirstToken, o.Start)
	s.since(c, spatev1.Metric_METRIC_TTFT_SCHEDULED, o.FirstToken, q.Scheduled)
	s.since(c, spatev1.Metric_METRIC_FIRST_FRAME, o.FirstFrame, o.Start)
	if o.Led {
		s.since(c, spatev1.Metric_METRIC_FIRST_FRAME_GAP, o.FirstToken, o.FirstFrame)
	}
	for _, gap := range o.Gaps {
		s.value(c, spatev1.Metric_METRIC_ITL, gap)
	}
	if o.OutputTokens >= 2 {
		s.value(c, spatev1.Metric_METRIC_TPOT, perToken(o.LastToken.Sub(o.FirstToken).Nanoseconds(), o.OutputTokens))
		s.value(c, spatev1.Metric_METRIC_TPOT_FIRST_FRAME, perToken(o.LastToken.Sub(o.FirstFrame).Nanoseconds(), o.OutputTokens))
	}
	if o.TokenFrames > 0 {
		s.value(c, spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME, rounded(1000*int64(o.OutputTokens), int64(o.TokenFrames)))
	}
}

// tokens counts the tokens of a completed request.
func (s *Shard) tokens(c *cell, q *Request, o *stream.Observation) {
	if o.Usage {
		s.count(c, inputTokens, o.InputTokens)
		s.value(c, spatev1.Metric_METRIC_ISL, int64(o.InputTokens))
		if q.ISL > 0 { // else the plan asked for none
			s.count(c, islCompared, 1)
			s.miss(c, islMissed, o.InputTokens, q.ISL)
		}
	} else {
		s.count(c, withoutUsage, 1)
	}
	s.count(c, sharedTokens, uint64(q.Shared))
	if o.HasCachedTokens {
		s.count(c, withCachedTokens, 1)
		s.count(c, cachedTokens, o.CachedTokens)
	}
	s.count(c, outputTokens, o.OutputTokens)
	s.value(c, spatev1.Metric_METRIC_OSL, int64(o.OutputTokens))
	s.miss(c, oslMissed, o.OutputTokens, q.OSL)
}

func (s *Shard) miss(c *cell, what counter, got uint64, asked uint32) {
	if got != uint64(asked) {
		s.count(c, what, 1)
	}
}

// since records the time from one instant to another, if both came.
func (s *Shard) since(c *cell, m spatev1.Metric, at, from clock.Instant) {
	if at != 0 && from != 0 {
		s.value(c, m, at.Sub(from).Nanoseconds())
	}
}

// perToken is the time of one output token after the first, of n.
func perToken(ns int64, n uint64) int64 { return rounded(ns, int64(n-1)) }

// rounded is a/b to the nearest integer, for a >= 0 and b > 0.
func rounded(a, b int64) int64 { return (a + b/2) / b }
