package recorder

import (
	"slices"
	"time"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// measure records a measured request that has ended. The caller holds s.mu.
func (s *Shard) measure(c *cell, q *Request, o *stream.Observation) {
	s.client(c, q, o)
	switch {
	case o.Cancelled:
		s.count(c, measure.Cancelled, 1)
	case o.Err != nil:
		s.count(c, measure.Failed, 1)
		c.fail(o.Err.Class, o.Err.HTTPStatus, 1, o.Err.Message)
		s.since(c, spatev1.Metric_METRIC_FAILURE_TIME, o.End, o.Start)
	default:
		s.count(c, measure.Completed, 1)
		s.latencies(c, q, o)
		s.tokens(c, q, o)
		s.output(c, o)
		c.model(o)
		s.outcome(c, &q.Outcome)
		if q.Part < len(s.config.SLOs) && s.config.SLOs[q.Part].kept(o) {
			s.count(c, measure.Good, 1)
		}
	}
}

// client records what is about the agent rather than the server. It counts however the request ended.
func (s *Shard) client(c *cell, q *Request, o *stream.Observation) {
	s.since(c, spatev1.Metric_METRIC_SEND_DELAY, o.Start, q.Scheduled.Add(q.Held))
	if q.Held > 0 {
		s.value(c, spatev1.Metric_METRIC_HELD, q.Held.Nanoseconds())
	}
	s.lags(c, o.Lags)
	s.count(c, measure.Connections, oneIf(o.Connected))
	s.count(c, measure.Reconnected, oneIf(o.Reconnected))
	s.count(c, measure.LateEnds, oneIf(o.LateEnd))
	if o.PreviousLate > 0 {
		s.value(c, spatev1.Metric_METRIC_LATE_END, o.PreviousLate.Nanoseconds())
	}
	s.count(c, measure.CoalescedReads, o.CoalescedReads)
	s.count(c, measure.UnstampedFrames, o.UnstampedFrames)
	s.count(c, measure.PacketFrames, o.PacketFrames)
	s.count(c, measure.SharedFrames, o.SharedFrames)
}

// lags records receive lags that were not handed to RecordToken.
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
	s.optional(c, spatev1.Metric_METRIC_SERVER_TTFT, o.Server.TTFT)
	s.optional(c, spatev1.Metric_METRIC_SERVER_QUEUE, o.Server.Queue)
	s.optional(c, spatev1.Metric_METRIC_SERVER_PREFILL, o.Server.Prefill)
	s.optional(c, spatev1.Metric_METRIC_SERVER_TOTAL, o.Server.Total)
	s.count(c, measure.WholeAnswers, oneIf(o.WholeAnswer && !o.WholeAsked))
	s.count(c, measure.StreamedAnswers, oneIf(!o.WholeAnswer && o.WholeAsked))
	if !o.Streamed() {
		return
	}
	s.streamed(c, q, o)
	if o.ReasoningFrames > 0 {
		s.since(c, spatev1.Metric_METRIC_TTFT_ANSWER, o.FirstAnswer, o.Start)
		s.since(c, spatev1.Metric_METRIC_REASONING, o.FirstAnswer, o.FirstToken)
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

// optional records a time, unless it is nil.
func (s *Shard) optional(c *cell, m spatev1.Metric, d *time.Duration) {
	if d != nil {
		s.value(c, m, d.Nanoseconds())
	}
}

// streamed records what only a stream can show.
func (s *Shard) streamed(c *cell, q *Request, o *stream.Observation) {
	s.since(c, spatev1.Metric_METRIC_TTFT, o.FirstToken, o.Start)
	s.since(c, spatev1.Metric_METRIC_TTFT_SCHEDULED, o.FirstToken, q.Scheduled)
	if o.FirstText != o.FirstToken {
		s.since(c, spatev1.Metric_METRIC_TTFT_TEXT, o.FirstText, o.Start)
	}
	s.count(c, measure.LateFirstFrames, oneIf(o.LateFirst))
	s.count(c, measure.LateLastFrames, oneIf(o.LateLast))
	chunks := s.gaps(c, o)
	s.since(c, spatev1.Metric_METRIC_VLLM_TTFT, chunks.first, o.Start)
	s.since(c, spatev1.Metric_METRIC_VLLM_E2E, chunks.last, o.Start)
	if o.OutputTokens >= 2 {
		s.value(c, spatev1.Metric_METRIC_TPOT, perToken(o.LastToken.Sub(o.FirstToken), o.OutputTokens))
		s.value(c, spatev1.Metric_METRIC_VLLM_TPOT, perToken(chunks.last.Sub(chunks.first), o.OutputTokens))
	}
	if o.TokenFrames > 0 {
		s.value(c, spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME,
			rounded(1000*int64(o.OutputTokens), int64(o.TokenFrames)))
	}
}

// chunkSpan holds the first and the last frame that vLLM's client times.
type chunkSpan struct{ first, last clock.Instant }

// gaps records the gaps between token frames. Where vLLM's client times other frames, it also records how its gaps
// differ. A gap belongs to both if it lies between the same two frames. Recorded are our gaps, vLLM's gaps that we do
// not have, and our gaps that vLLM does not have, so that both distributions can be computed from histograms.
func (s *Shard) gaps(c *cell, o *stream.Observation) (chunks chunkSpan) {
	var token clock.Instant
	tokenAt, chunkAt := -1, -1 // indices into o.Frames
	for i, f := range o.Frames {
		at, shared := f.At(), tokenAt == chunkAt && f.Token() && f.Chunk()
		if f.Token() {
			if tokenAt >= 0 {
				s.gap(c, spatev1.Metric_METRIC_ITL, at.Sub(token), true)
				s.gap(c, spatev1.Metric_METRIC_VLLM_ITL_LEFT_OUT, at.Sub(token), !shared)
			}
			token, tokenAt = at, i
		}
		if f.Chunk() {
			if chunkAt >= 0 {
				s.gap(c, spatev1.Metric_METRIC_VLLM_ITL_ADDED, at.Sub(chunks.last), !shared)
			} else {
				chunks.first = at
			}
			chunks.last, chunkAt = at, i
			s.count(c, measure.Chunks, 1)
		}
	}
	return chunks
}

// gap records a gap if belongs is true.
func (s *Shard) gap(c *cell, m spatev1.Metric, gap time.Duration, belongs bool) {
	if belongs {
		s.value(c, m, gap.Nanoseconds())
	}
}

// tokens counts the tokens of a completed request.
func (s *Shard) tokens(c *cell, q *Request, o *stream.Observation) {
	if o.Usage {
		s.count(c, measure.InputTokens, o.InputTokens)
		s.value(c, spatev1.Metric_METRIC_ISL, int64(o.InputTokens))
		if q.Images > 0 {
			s.count(c, measure.Images, uint64(q.Images))
			s.count(c, measure.ImageTokens, max(o.InputTokens, uint64(q.Text))-uint64(q.Text))
		}
		if q.ISL > 0 { // else the plan requested no length
			s.count(c, measure.ISLCompared, 1)
			s.miss(c, measure.ISLMissed, o.InputTokens, q.ISL)
			s.count(c, measure.ISLFar, oneIf(far(o.InputTokens, uint64(q.ISL))))
		}
	} else {
		s.count(c, measure.WithoutUsage, 1)
	}
	s.count(c, measure.SharedTokens, uint64(q.Shared))
	s.count(c, measure.Texts, uint64(q.Texts))
	if o.HasCachedTokens {
		s.count(c, measure.WithCachedTokens, 1)
		s.count(c, measure.CachedTokens, o.CachedTokens)
	}
	if o.UncountedOutput {
		s.count(c, measure.UncountedOutputs, 1)
		return
	}
	s.count(c, measure.OutputTokens, o.OutputTokens)
	s.value(c, spatev1.Metric_METRIC_OSL, int64(o.OutputTokens))
	s.miss(c, measure.OSLMissed, o.OutputTokens, q.OSL)
}

// output counts what shows whether the tokens of a completed request were really streamed, because the trust in its
// times depends on it.
func (s *Shard) output(c *cell, o *stream.Observation) {
	s.count(c, measure.TokenFrames, o.TokenFrames)
	s.count(c, measure.TextBytes, o.TextBytes)
	s.count(c, measure.GarbledAnswers, oneIf(o.Garbled()))
	s.count(c, measure.EmptyAnswers, oneIf(o.OutputTokens > 0 && o.TextBytes == 0 && len(o.Calls) == 0))
	s.count(c, measure.InOneFrame, oneIf(o.Streamed() && o.TokenFrames == 1 && o.OutputTokens >= suspiciousTokens))
	s.count(c, measure.WrittenAtOnce, oneIf(o.Streamed() && o.WrittenAtOnce && o.TokenFrames >= suspiciousTokens))
	s.count(c, measure.Undecided, oneIf(o.Undecided))
	if ended := endings[o.Ending]; ended != 0 {
		s.count(c, ended, 1)
	}
	if o.Streamed() && o.HeadTokens != stream.TokensUnknown {
		s.count(c, measure.WithHeadTokens, 1)
		s.count(c, measure.HeadTokens, uint64(o.HeadTokens))
	}
	if !o.HasReasoningTokens {
		return
	}
	s.count(c, measure.ReasoningTokens, o.ReasoningTokens)
	s.value(c, spatev1.Metric_METRIC_REASONING_TOKENS, int64(o.ReasoningTokens))
	if o.ReasoningFrames == 0 {
		s.count(c, measure.HiddenReasoningTokens, o.ReasoningTokens)
	}
}

// model counts a completed request whose answer named a model.
func (c *cell) model(o *stream.Observation) {
	if o.Model == "" {
		return
	}
	name := clip(o.Model)
	i := slices.IndexFunc(c.models, func(m *spatev1.ModelCount) bool { return m.GetModel() == name })
	if i < 0 {
		i = len(c.models)
		c.models = append(c.models, &spatev1.ModelCount{Model: name})
	}
	m := c.models[i]
	m.Requests++
	m.E2EUs += uint64(max(o.LastToken.Sub(o.Start).Microseconds(), 0))
	if o.Streamed() {
		m.Streamed++
		m.TtftUs += uint64(max(o.FirstToken.Sub(o.Start).Microseconds(), 0))
	}
}

// outcome counts what a completed answer has of what its request asked for.
func (s *Shard) outcome(c *cell, o *ready.Outcome) {
	s.count(c, measure.WithTools, oneIf(o.Tools))
	s.count(c, measure.WithToolCalls, oneIf(o.Calls > 0))
	s.count(c, measure.ToolCalls, o.Calls)
	s.count(c, measure.ValidToolCalls, o.ValidCalls)
	s.count(c, measure.CheckedAnswers, oneIf(o.Checked))
	s.count(c, measure.ValidAnswers, oneIf(o.ValidAnswer))
}

// endings maps an answer's ending to the counter of completed requests that ended so. 0: there is none.
var endings = [api.EndingCount]measure.Counter{
	api.EndingStop: measure.EndedStop, api.EndingLength: measure.EndedLength,
	api.EndingToolCalls: measure.EndedToolCalls, api.EndingFiltered: measure.EndedFiltered,
	api.EndingOther: measure.EndedOther,
}

// suspiciousTokens is how many tokens an answer must have before it is suspicious that they came at once. Fewer tokens
// may well do so, from a fast engine or one that decodes several tokens in a step.
const suspiciousTokens = 8

// oneIf returns 1 if holds is true, else 0.
func oneIf(holds bool) uint64 {
	if holds {
		return 1
	}
	return 0
}

func (s *Shard) miss(c *cell, what measure.Counter, got uint64, asked uint32) {
	if got != uint64(asked) {
		s.count(c, what, 1)
	}
}

// far reports whether a length differs by more than 1 %, and by more than one token, from the requested one.
func far(got, asked uint64) bool { return max(got, asked)-min(got, asked) > max(asked/100, 1) }

// since records the time from one instant to another, if both are known.
func (s *Shard) since(c *cell, m spatev1.Metric, at, from clock.Instant) {
	if at != 0 && from != 0 {
		s.value(c, m, at.Sub(from).Nanoseconds())
	}
}

// perToken returns the time of one output token after the first of n, in nanoseconds.
func perToken(d time.Duration, n uint64) int64 { return rounded(d.Nanoseconds(), int64(n-1)) }

// rounded returns a/b to the nearest integer, for a >= 0 and b > 0.
func rounded(a, b int64) int64 { return (a + b/2) / b }
