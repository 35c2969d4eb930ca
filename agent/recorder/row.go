package recorder

import (
	"cmp"
	"time"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// newRow returns the row of a request. Its times are relative to the stage's start.
func newRow(start clock.Instant, q *Request, o *stream.Observation) *spatev1.RequestRecord {
	row := &spatev1.RequestRecord{
		Index:        q.Index,
		Turn:         uint32(q.Turn),
		Endpoint:     uint32(q.Endpoint),
		Part:         uint32(q.Part),
		Model:        q.Model,
		Unmeasured:   q.Unmeasured,
		ScheduledNs:  int64(q.Scheduled - start),
		StartNs:      int64(o.Start - start),
		SentNs:       offset(start, o.Sent),
		FirstByteNs:  offset(start, o.FirstByte),
		LastTokenNs:  offset(start, o.LastToken),
		EndNs:        int64(o.End - start),
		IslAsked:     q.ISL,
		OslAsked:     q.OSL,
		SharedTokens: q.Shared,
		Usage:        o.Usage,
		TokenFrames:  o.TokenFrames,
		HttpStatus:   uint32(o.HTTPStatus),
		Cancelled:    o.Cancelled,
		BodyHash:     q.BodyHash,
		TextBytes:    o.TextBytes,
		Garbled:      o.Garbled(),
		FinishReason: clip(o.FinishReason),
		AnswerModel:  clip(o.Model),
		HeldNs:       nilIfZero(q.Held),
	}
	if q.Texts > 0 {
		row.Texts = new(q.Texts) // a copy: the caller reuses the request
	}
	setOptional(row, o)
	setOutcome(row, &q.Outcome)
	if o.Streamed() { // the only frame of a whole answer says nothing about the first token
		setStreamed(row, start, o)
	}
	return row
}

// setOptional sets the fields that not every request has.
func setOptional(row *spatev1.RequestRecord, o *stream.Observation) {
	if o.Connected {
		row.ConnectNs, row.TcpNs = new(o.Connect.Nanoseconds()), new(o.TCP.Nanoseconds())
		row.DnsNs, row.TlsNs = nilIfZero(o.DNS), nilIfZero(o.TLS)
	}
	if o.Usage {
		row.InputTokens = new(o.InputTokens)
	}
	if o.HasCachedTokens {
		row.CachedTokens = new(o.CachedTokens)
	}
	if o.OutputTokens > 0 {
		row.OutputTokens = new(o.OutputTokens)
	}
	if o.HasReasoningTokens {
		row.ReasoningTokens = new(o.ReasoningTokens)
	}
	if o.Server.Queue != nil {
		row.ServerQueueNs = new(o.Server.Queue.Nanoseconds())
	}
	if o.Err != nil && !o.Cancelled {
		row.ErrorClass, row.Error = o.Err.Class, clip(o.Err.Message)
	}
}

// setOutcome sets the fields that say what the answer has of what the request asked for.
func setOutcome(row *spatev1.RequestRecord, o *ready.Outcome) {
	if o.Tools || o.Calls > 0 {
		row.ToolCalls, row.ValidToolCalls = new(o.Calls), new(o.ValidCalls)
	}
	if o.Checked {
		row.ValidAnswer = new(o.ValidAnswer)
	}
}

// setStreamed sets the fields that only a stream has.
func setStreamed(row *spatev1.RequestRecord, start clock.Instant, o *stream.Observation) {
	if len(o.Frames) > 0 {
		row.ItlNs = o.Gaps(make([]int64, 0, len(o.Frames)))
	}
	row.FirstTokenNs = offset(start, o.FirstToken)
	row.FirstTextNs, row.FirstAnswerNs = offset(start, o.FirstText), offset(start, o.FirstAnswer)
	for _, f := range o.Frames {
		if !f.Chunk() {
			continue
		}
		row.Chunks++
		row.LastChunkNs = offset(start, f.At())
		row.FirstChunkNs = cmp.Or(row.FirstChunkNs, row.LastChunkNs)
	}
}

// nilIfZero returns a time in nanoseconds, or nil for 0.
func nilIfZero(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(d.Nanoseconds())
}

// offset returns an instant relative to the start, or nil for an instant that never came.
func offset(start, at clock.Instant) *int64 {
	if at == 0 {
		return nil
	}
	return new(int64(at - start))
}
