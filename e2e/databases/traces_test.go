package databases

import (
	"slices"
	"strings"
	"testing"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/collectortest"
	"github.com/spate-load/spate/internal/process"
)

// A real collector passes on one trace of a run whose coordinator is killed and restarted: each span once, each with
// its parent, which it lies within, and the restart as an event of the stage. A run that waits behind it has a trace of
// its own.
func TestCollectorHasTheTraces(t *testing.T) {
	t.Parallel()
	collector := collectortest.Start(t)
	c := programs.StartLasting(t, nil, "--otlp-url", collector.URL, "--otlp-traces")
	c.StartAgents("north")
	r, server := c.RateRun("fail", 6, 1)
	server.AwaitAnswers(20)
	c.Detach(programs.RatePlan("behind", "fail", server.URLs[0], 1))
	spans := func(want string) {
		process.Eventually(t, "the collector has "+want, func() bool { return named(collector.Spans()) == want })
	}
	spans("prepare and arm, wait")
	c.KillCoordinator()
	c.StartCoordinator()
	r.MustExit(0)
	c.Follow("behind").MustExit(0)
	spans("merge, merge, prepare and arm, prepare and arm, run, run, stage, stage, wait, wait")

	trace := map[string][]*traces.Span{}
	for _, s := range collector.Spans() {
		trace[string(s.GetTraceId())] = append(trace[string(s.GetTraceId())], s)
	}
	if len(trace) != 2 {
		t.Errorf("%d traces of two runs", len(trace))
	}
	events := ""
	for _, of := range trace {
		if got := named(of); got != "merge, prepare and arm, run, stage, wait" {
			t.Errorf("a run has the spans %s", got)
		}
		for _, s := range of {
			mustLieWithin(t, s, of)
			for _, e := range s.GetEvents() {
				events += s.GetName() + ": " + e.GetName() + "\n"
			}
		}
	}
	if strings.Count(events, "stage: coordinator restarted\n") != 1 || strings.Count(events, "restarted") != 2 {
		t.Errorf("want a restart in one run's stage and in the other one, which waited:\n%s", events)
	}
}

// named returns the names of spans in their order.
func named(spans []*traces.Span) string {
	var names []string
	for _, s := range spans {
		names = append(names, s.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// mustLieWithin fails the test if a span, unless it is a run's, has no parent in its trace or is not within its times.
func mustLieWithin(t *testing.T, s *traces.Span, of []*traces.Span) {
	t.Helper()
	if s.GetName() == "run" {
		return
	}
	i := slices.IndexFunc(of, func(p *traces.Span) bool { return string(p.GetSpanId()) == string(s.GetParentSpanId()) })
	if i < 0 {
		t.Errorf("%s has no parent", s.GetName())
		return
	}
	p := of[i]
	if s.GetStartTimeUnixNano() < p.GetStartTimeUnixNano() || s.GetEndTimeUnixNano() > p.GetEndTimeUnixNano() {
		t.Errorf("%s is not within %s: %v %v", s.GetName(), p.GetName(), s, p)
	}
}
