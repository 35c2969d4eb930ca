package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"go.opentelemetry.io/otel/trace"
)

// identity is what a span is known by.
type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

// identityKey is the key of the identity of the next span, in a context.
type identityKey struct{}

// withIdentity returns a context in which a span gets an identity that follows from the ID of its run and its own key.
// A coordinator that is restarted gives the spans that were open the identity they had, so that the spans within, which
// were sent, have their parent. Nothing is stored for that. IDs of runs have a random part, as those of traces must.
func withIdentity(ctx context.Context, run, key string) context.Context {
	of := func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		return sum[:]
	}
	var id identity
	copy(id.trace[:], of(run))
	copy(id.span[:], of(run+"\n"+key))
	return context.WithValue(ctx, identityKey{}, id)
}

// generator gives spans the identity that their context has, or else a random one.
type generator struct{}

// NewIDs returns the identity of a span without a parent.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, given := ctx.Value(identityKey{}).(identity)
	if !given {
		rand.Read(id.trace[:]) // never fails, by its contract
		rand.Read(id.span[:])
	}
	return id.trace, id.span
}

// NewSpanID returns the ID of a span within another one.
func (g generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := g.NewIDs(ctx)
	return id
}
