package enginetest

import (
	"context"
	"net/http"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Client takes the place of stream.Client in virtual time: it asks engines without a network.
type Client []*Engine // by endpoint

// ServiceTime is what an engine without a delay takes for a request of a Client. If it took nothing, a closed loop of
// virtual time would start requests without end at one instant.
const ServiceTime = 100 * time.Microsecond

// Preconnect does nothing.
func (Client) Preconnect(context.Context, int) error { return nil }

// Do is stream.Client's Do for the two tokens of an engine's answer.
func (c Client) Do(ctx context.Context, r stream.Request, o *stream.Observation) {
	*o = stream.Observation{Frames: o.Frames[:0], Answer: o.Answer[:0], Calls: o.Calls[:0], Start: clock.Now()}
	e := c[r.Endpoint]
	status := e.arrived(r.ID, r.Body)
	select {
	case <-time.After(max(e.Delay, ServiceTime)):
	case <-ctx.Done():
		o.Cancelled, o.End = true, clock.Now()
		return
	}
	o.End = clock.Now()
	if o.HTTPStatus = http.StatusOK; status != 0 {
		o.HTTPStatus = status
		o.Err = &stream.Error{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, HTTPStatus: status, Message: "no"}
		return
	}
	o.Sent, o.FirstByte, o.FirstToken, o.LastToken = o.Start, o.End, o.End, o.End
	o.FirstText, o.FirstAnswer = o.End, o.End
	for range plainFrames {
		o.TokenFrames++
		if r.OnToken != nil {
			r.OnToken(o.End, stream.TokensUnknown)
		}
	}
	o.InputTokens, o.OutputTokens, o.Usage, o.FinishReason = 4, 2, true, "length"
	if r.KeepAnswer {
		o.Answer = append(o.Answer, "<"+r.ID+">"...)
	}
}
