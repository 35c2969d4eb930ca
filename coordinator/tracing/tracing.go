// Package tracing makes an OpenTelemetry trace of each run: how long it waited, was prepared, sent load and was merged,
// and which agents were lost or joined. It knows nothing of ledgers and agents: it reads the events of runs.
package tracing

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config says where traces are sent.
type Config struct {
	// URL is that to which traces are posted.
	URL string
	// Headers are those of each request.
	Headers map[string]string
	// TLS says how to check the collector's certificate. Nil: by the machine's authorities.
	TLS *tls.Config
	// Instance and Version are the coordinator's name and that of its program.
	Instance, Version string
	// Logger receives what went wrong with sending.
	Logger *slog.Logger
}

// Tracer sends traces. Its methods may be called concurrently. A nil Tracer sends none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// New returns a tracer. It does not connect yet. A collector that does not answer loses spans, and nothing waits for
// it. The caller calls Close.
func New(ctx context.Context, c Config) (*Tracer, error) {
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(c.URL),
		otlptracehttp.WithHeaders(c.Headers)}
	if c.TLS != nil {
		options = append(options, otlptracehttp.WithTLSClientConfig(c.TLS))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		c.Logger.Warn("traces were not sent", "error", err)
	}))
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return of(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(generator{}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "spate-coordinator"), attribute.String("service.version", c.Version),
			attribute.String("service.instance.id", c.Instance))))), nil
}

// of returns the tracer of a provider.
func of(provider *sdktrace.TracerProvider) *Tracer {
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/spate-load/spate/coordinator")}
}

// Close sends what is left, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Run is the trace of a run. Its methods may be called concurrently, and do not block. A nil Run has none.
type Run struct {
	tracer trace.Tracer
	id     string // of the run

	mu     sync.Mutex
	past   bool            // events are those that an earlier coordinator has sent spans of
	root   context.Context // has the span of the run
	stage  context.Context // has the span of the stage in progress; nil: none is
	waits  bool            // the run has not begun
	before time.Time       // when what comes before the next stage began
}

// Run begins the trace of a run at the time of its submission, or continues it after Resume.
func (t *Tracer) Run(id, plan, submitter string, submitted time.Time) *Run {
	if t == nil {
		return nil
	}
	r := &Run{tracer: t.tracer, id: id, waits: true, before: submitted}
	r.root = r.open(context.Background(), "run", "run", submitted, attribute.String("spate.run", id),
		attribute.String("spate.plan", plan), attribute.String("spate.submitter", submitter))
	return r
}

// open begins a span whose identity follows from the run and a key of the span. It returns a context that has the span.
func (r *Run) open(parent context.Context, name, key string, at time.Time, attributes ...attribute.KeyValue,
) context.Context {
	_, span := r.tracer.Start(withIdentity(parent, r.id, key), name, trace.WithTimestamp(at),
		trace.WithAttributes(attributes...))
	return trace.ContextWithSpan(context.Background(), span) // the identity is not that of spans within
}

// Resume takes the events that the run had before the coordinator was restarted, and sends no spans of what ended by
// then: the process before has done so.
func (r *Run) Resume(events []*spatev1.FollowRunResponse, restarted time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.past = true
	for _, e := range events {
		r.take(e.GetEvent())
	}
	r.past = false
	r.current().AddEvent("coordinator restarted", trace.WithTimestamp(restarted))
}

// Take takes an event of the run.
func (r *Run) Take(e *spatev1.RunEvent) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(e)
}

// take takes an event. r.mu is held.
func (r *Run) take(e *spatev1.RunEvent) {
	at := e.GetTime().AsTime()
	switch {
	case e.GetRunStarted() != nil:
		r.span(r.root, "wait", r.before, at)
		r.waits, r.before = false, at
	case e.GetStageStarted() != nil:
		r.stageStarted(e.GetStageStarted(), at)
	case e.GetAgentChanged() != nil:
		r.agentChanged(e.GetAgentChanged(), at)
	case e.GetStageEnded() != nil:
		r.stageEnded(e.GetStageEnded(), at)
	case e.GetRunEnded() != nil:
		r.runEnded(e.GetRunEnded(), at)
	}
}

// Merged adds how long the results of the stage in progress took.
func (r *Run) Merged(from, to time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stage != nil {
		r.span(r.stage, "merge", from, to)
	}
}

// span adds a span that has ended. r.mu is held.
func (r *Run) span(parent context.Context, name string, from, to time.Time, attributes ...attribute.KeyValue) {
	if r.past {
		return
	}
	_, s := r.tracer.Start(parent, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	s.End(trace.WithTimestamp(to))
}

func (r *Run) stageStarted(s *spatev1.StageStarted, at time.Time) {
	index := int(s.GetStageIndex())
	r.span(r.root, "prepare and arm", r.before, at, attribute.Int("spate.stage", index))
	r.stage = r.open(r.root, "stage", fmt.Sprint("stage ", index), at, attribute.Int("spate.stage", index),
		attribute.String("spate.target", s.GetTarget()), attribute.String("spate.workload", s.GetWorkload()),
		attribute.String("spate.load", s.GetLoad()))
}

func (r *Run) agentChanged(c *spatev1.AgentChanged, at time.Time) {
	name := "agent lost"
	if c.GetJoined() {
		name = "agent joined"
	}
	r.current().AddEvent(name, trace.WithTimestamp(at), trace.WithAttributes(
		attribute.String("spate.agent", c.GetAgent().GetName()), attribute.String("spate.reason", c.GetReason()),
		attribute.String("spate.consequence", c.GetConsequence())))
}

// current returns the span of the stage in progress, or else that of the run.
func (r *Run) current() trace.Span {
	if r.stage != nil {
		return trace.SpanFromContext(r.stage)
	}
	return trace.SpanFromContext(r.root)
}

func (r *Run) stageEnded(s *spatev1.StageEnded, at time.Time) {
	if r.stage == nil { // it failed before it was armed
		return
	}
	span := r.current()
	span.SetAttributes(attribute.Bool("spate.complete", s.GetComplete()))
	if why := s.GetFailure(); why != "" {
		span.SetStatus(codes.Error, why)
	}
	if !r.past {
		span.End(trace.WithTimestamp(at))
	}
	r.stage, r.before = nil, at
}

func (r *Run) runEnded(e *spatev1.RunEnded, at time.Time) {
	if r.waits {
		r.span(r.root, "wait", r.before, at)
	}
	if r.stage != nil {
		r.current().End(trace.WithTimestamp(at))
		r.stage = nil
	}
	root := r.current()
	root.SetAttributes(attribute.String("spate.outcome", e.GetOutcome().String()),
		attribute.Bool("spate.complete", e.GetComplete()), attribute.String("spate.verdict", e.GetVerdict()))
	if e.GetOutcome() == spatev1.Outcome_OUTCOME_FAILED {
		root.SetStatus(codes.Error, e.GetReason())
	}
	root.End(trace.WithTimestamp(at))
}
