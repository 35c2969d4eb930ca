package tracing

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// start is when the run of the tests was submitted.
var start = time.Date(2026, 3, 29, 10, 0, 0, 0, time.UTC)

// second returns a time after start.
func second(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Second))) }

// receiver is a collector.
type receiver struct {
	mu     sync.Mutex
	spans  []*otlp.Span
	header http.Header
	path   string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header, r.path = q.Header, q.URL.Path
	for _, of := range request.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
}

// words describes the spans in the order of their ends: parent, name, seconds from and to, events, status.
func (r *receiver) words() (list []string) {
	names := map[string]string{}
	for _, s := range r.spans {
		names[string(s.GetSpanId())] = s.GetName()
	}
	at := func(ns uint64) float64 { return time.Unix(0, int64(ns)).Sub(start).Seconds() }
	slices.SortStableFunc(r.spans, func(a, b *otlp.Span) int {
		return int(int64(a.GetEndTimeUnixNano()) - int64(b.GetEndTimeUnixNano()))
	})
	for _, s := range r.spans {
		text := fmt.Sprintf("%s>%s %g-%g", names[string(s.GetParentSpanId())], s.GetName(), at(s.GetStartTimeUnixNano()),
			at(s.GetEndTimeUnixNano()))
		for _, e := range s.GetEvents() {
			text += fmt.Sprintf(" [%s %g]", e.GetName(), at(e.GetTimeUnixNano()))
		}
		list = append(list, strings.TrimSpace(text+" "+s.GetStatus().GetMessage()))
	}
	return list
}

// traced returns what a collector receives of a run with events.
func traced(t *testing.T, change func(*Run), events ...*spatev1.RunEvent) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	tracer, err := New(t.Context(), Config{URL: server.URL + "/v1/traces", Headers: map[string]string{"X-Key": "k"},
		Instance: "main", Version: "v1", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	run := tracer.Run("sweep-1", "sweep", "anna", start)
	for _, e := range events {
		run.Take(e)
		if e.GetAgentChanged() != nil {
			change(run)
		}
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// event returns an event at a second.
func event(n float64, e *spatev1.RunEvent) *spatev1.RunEvent {
	e.Time = timestamppb.New(second(n))
	return e
}

// A trace has the run, how long it waited, and for each stage how long it was prepared, sent load and was merged.
func TestTrace(t *testing.T) {
	r := traced(t, func(run *Run) { run.Merged(second(18), second(18.5)) },
		event(5, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunStarted{RunStarted: &spatev1.RunStarted{}}}),
		event(7, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{Target: "x"}}}),
		event(9, &spatev1.RunEvent{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{}}}),
		event(19, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{Failure: "lost"}}}),
		event(20, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{
			Outcome: spatev1.Outcome_OUTCOME_FAILED, Reason: "an agent was lost"}}}),
	)
	want := []string{"run>wait 0-5", "run>prepare and arm 5-7", "stage>merge 18-18.5", "run>stage 7-19 [agent lost 9] lost",
		">run 0-20 an agent was lost"}
	if got := r.words(); !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if r.path != "/v1/traces" || r.header.Get("X-Key") != "k" {
		t.Errorf("%s %v", r.path, r.header)
	}
}

// A coordinator that is restarted continues the trace: wherever it happens, the spans of both processes together are
// those of one that was not restarted, and all of one trace. The span in progress says so.
func TestTraceIsContinued(t *testing.T) {
	stage := func(n float64, index uint32) []*spatev1.RunEvent {
		return []*spatev1.RunEvent{
			event(n, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: &spatev1.StageStarted{
				StageIndex: index}}}),
			event(n+4, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{
				StageIndex: index}}}),
		}
	}
	all := slices.Concat(
		[]*spatev1.RunEvent{
			event(1, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunStarted{RunStarted: &spatev1.RunStarted{}}})},
		stage(2, 0), stage(10, 1),
		[]*spatev1.RunEvent{
			event(20, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{}}})},
	)
	want := []string{"run>wait 0-1", "run>prepare and arm 1-2", "run>stage 2-6", "run>prepare and arm 6-10",
		"run>stage 10-14", ">run 0-20"}
	for cut := range all {
		r := &receiver{}
		server := httptest.NewServer(r)
		for _, part := range [][2][]*spatev1.RunEvent{{nil, all[:cut]}, {all[:cut], all[cut:]}} {
			tracer, err := New(t.Context(), Config{URL: server.URL, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			run := tracer.Run("sweep-1", "sweep", "anna", start)
			if cut > 0 && len(part[0]) == cut {
				var before []*spatev1.FollowRunResponse
				for _, e := range part[0] {
					before = append(before, &spatev1.FollowRunResponse{Event: e})
				}
				run.Resume(before, second(5))
			}
			for _, e := range part[1] {
				run.Take(e)
			}
			if err := tracer.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		server.Close()
		text := strings.Join(r.words(), "\n")
		if cut > 0 && strings.Count(text, " [coordinator restarted 5]") != 1 {
			t.Errorf("after %d events: the restart is not in\n%s", cut, text)
		}
		if got := strings.ReplaceAll(text, " [coordinator restarted 5]", ""); got != strings.Join(want, "\n") {
			t.Errorf("after %d events: got\n%s\nwant\n%s", cut, got, strings.Join(want, "\n"))
		}
		for _, s := range r.spans {
			if string(s.GetTraceId()) != string(r.spans[0].GetTraceId()) {
				t.Errorf("after %d events: two traces", cut)
			}
		}
	}
}

// Traces of two runs are two.
func TestRunsHaveTheirOwnTraces(t *testing.T) {
	a, b := withIdentity(t.Context(), "a", "run"), withIdentity(t.Context(), "b", "run")
	trace1, span1 := generator{}.NewIDs(a)
	trace2, span2 := generator{}.NewIDs(b)
	if within := (generator{}).NewSpanID(t.Context(), trace1); trace1 == trace2 || span1 == span2 || !within.IsValid() {
		t.Errorf("%v %v %v %v %v", trace1, trace2, span1, span2, within)
	}
}

// A run that is stopped while it waits has a trace, too.
func TestTraceOfAWaitingRun(t *testing.T) {
	r := traced(t, nil, event(3, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{}}}))
	if got, want := r.words(), []string{"run>wait 0-3", ">run 0-3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Without a tracer nothing happens.
func TestNoTracer(t *testing.T) {
	var tracer *Tracer
	run := tracer.Run("a", "b", "c", start)
	run.Take(event(1, &spatev1.RunEvent{}))
	run.Merged(start, start)
	if err := tracer.Close(t.Context()); run != nil || err != nil {
		t.Errorf("%v %v", run, err)
	}
}
