package recorder

import (
	"fmt"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// bounded returns o if it is within the bounds that the coordinator accepts. Otherwise it returns a failed copy that
// says which bound was exceeded. The stream client should have ended such a request already; this is the second check.
func (s *Shard) bounded(o *stream.Observation) *stream.Observation {
	why := s.impossible(o)
	if why == "" {
		return o
	}
	failed := *o
	failed.Err = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE, Message: why}
	failed.Frames = o.Frames[:min(len(o.Frames), measure.MaxFrames)]
	failed.Usage, failed.HasCachedTokens, failed.HasReasoningTokens = false, false, false
	failed.OutputTokens, failed.TextBytes, failed.HTTPStatus = 0, 0, 0
	failed.TokenFrames = min(o.TokenFrames, measure.MaxFrames)
	failed.CoalescedReads, failed.UnstampedFrames, failed.PacketFrames, failed.SharedFrames = 0, 0, 0, 0
	return &failed
}

// impossible says which number of a request is impossible, or returns "".
func (s *Shard) impossible(o *stream.Observation) string {
	tokens := max(o.InputTokens, o.OutputTokens, o.CachedTokens, o.ReasoningTokens)
	frames := max(uint64(len(o.Frames)), o.TokenFrames, o.CoalescedReads, o.UnstampedFrames, o.PacketFrames,
		o.SharedFrames)
	switch {
	case tokens > measure.MaxTokens:
		return fmt.Sprintf("%d tokens in one request: more than %d cannot be", tokens, measure.MaxTokens)
	case o.HeadTokens < stream.TokensUnknown || o.HeadTokens > measure.MaxTokens:
		return fmt.Sprintf("%d tokens in the first frame: more than %d cannot be", o.HeadTokens, measure.MaxTokens)
	case frames > measure.MaxFrames:
		return fmt.Sprintf("%d frames in one answer: at most %d are kept", frames, measure.MaxFrames)
	case o.TextBytes > measure.MaxAnswer:
		return fmt.Sprintf("%d bytes of text in one answer: at most %d are possible", o.TextBytes,
			uint64(measure.MaxAnswer))
	case o.Err != nil && o.Err.Class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS &&
		(o.Err.HTTPStatus < measure.MinStatus || o.Err.HTTPStatus > measure.MaxStatus):
		return fmt.Sprintf("HTTP status %d is not valid", o.Err.HTTPStatus)
	case s.wouldOverflow(o):
		return fmt.Sprintf("the tokens or bytes of a stage exceed %d: the server's counts cannot be true",
			uint64(measure.MaxTotal))
	}
	return ""
}

// wouldOverflow reports whether a request would push the shard's sums beyond its part of what totals may hold.
func (s *Shard) wouldOverflow(o *stream.Observation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, sums := s.maxSum(), &s.total.counts
	return sums[measure.InputTokens]+o.InputTokens > most || sums[measure.OutputTokens]+o.OutputTokens > most ||
		sums[measure.CachedTokens]+o.CachedTokens > most || sums[measure.ReasoningTokens]+o.ReasoningTokens > most ||
		sums[measure.TextBytes]+o.TextBytes > most
}

// maxSum returns half of the shard's part of measure.MaxTotal, because requests that end together see the same sums.
// The sums of a window are bounded by how many requests an agent can end in a second.
func (s *Shard) maxSum() uint64 { return measure.MaxTotal / uint64(2*max(s.config.Shards, 1)) }

// plausible reports whether a frame's tokens can be counted, see stream.Request.OnToken. The caller holds s.mu.
func (s *Shard) plausible(tokens int) bool {
	return tokens >= 0 && tokens <= measure.MaxTokens && s.total.counts[measure.TokensArrived]+
		uint64(tokens) <= s.maxSum()
}
