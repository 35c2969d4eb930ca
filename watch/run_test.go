package watch

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// event wraps a message in an event.
func event(m proto.Message) *spatev1.RunEvent {
	e := &spatev1.RunEvent{}
	fields := e.ProtoReflect().Descriptor().Oneofs().ByName("event").Fields()
	for i := range fields.Len() {
		if fields.Get(i).Message().FullName() == m.ProtoReflect().Descriptor().FullName() {
			e.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(m.ProtoReflect()))
		}
	}
	return e
}

// window returns a window of stage 0 in which 10 requests started, 9 completed and 1 failed.
func window(number uint32) *spatev1.StageWindow {
	part := func(name string) *spatev1.WindowPart {
		return &spatev1.WindowPart{Name: name, Seconds: 1, Started: 10, Completed: 9, Failed: 1, FramesPerSecond: 50}
	}
	return &spatev1.StageWindow{
		Number: number, Whole: part(""), Agents: []*spatev1.WindowPart{part("a")}, Errors: map[string]uint64{"timeout": 1},
		Verdict: "SUSPECT", Doubts: []*spatev1.Doubt{{Check: "isl", Words: "short", Remedy: "name the tokenizer"}},
	}
}

// follow returns the state of a run after events with the numbers 1, 2, ...
func follow(events ...proto.Message) *Run {
	r := New()
	for i, m := range events {
		r.Take(uint64(i+1), event(m))
	}
	return r
}

func TestARunFromStartToEnd(t *testing.T) {
	a, b := &spatev1.AgentInfo{Name: "a", Region: "eu"}, &spatev1.AgentInfo{Name: "b"}
	r := New()
	if r.Current() != nil || !r.Left().Unknown || !r.Started.IsZero() {
		t.Error("a run that waits has a stage, an end or a start")
	}
	began := event(&spatev1.RunStarted{Agents: []*spatev1.AgentInfo{a}, Stages: 2})
	began.Time = timestamppb.New(time.Unix(1000, 0))
	r.Take(1, began)
	for i, m := range []proto.Message{
		&spatev1.StageStarted{Target: "t", Load: "concurrency 8", Expected: durationpb.New(4 * time.Second)},
		window(0), window(1),
		&spatev1.StageProgress{Elapsed: durationpb.New(time.Second), Completed: 20, Failed: 2},
		&spatev1.AgentChanged{Agent: a, Reason: "it was silent"},
		&spatev1.AgentChanged{Agent: b, Joined: true},
		&spatev1.Notice{Severity: spatev1.Severity_SEVERITY_WARNING, Text: "careful"},
	} {
		r.Take(uint64(i+2), event(m))
	}
	s := r.Current()
	if part, known := r.Part(); part != 0 || !known {
		t.Errorf("part of the run %v %v", part, known)
	}
	if part, known := s.Part(); part != 0.25 || !known || s.Left().Known != 3 || !s.InProgress() {
		t.Errorf("part %v %v, left %v", part, known, s.Left())
	}
	if s.Errors["timeout"] != 2 || s.Verdict != "SUSPECT" || s.Doubts[0].GetRemedy() == "" || s.From != 0 {
		t.Errorf("%+v", s)
	}
	agents := r.Agents()
	if len(agents) != 2 || !agents[0].Lost || agents[0].Window != 1 || agents[0].Latest.GetStarted() != 10 ||
		agents[1].Lost || !agents[1].Joined || agents[1].Latest != nil {
		t.Errorf("agents %+v %+v", agents[0], agents[1])
	}
	if n := r.Notices(); len(n) != 3 || n[0].Change == nil || n[2].Text != "careful" || n[2].Time.Unix() != 1000 {
		t.Errorf("notices %+v", n)
	}
	r.Take(20, event(&spatev1.StageEnded{Complete: true, Verdict: "VALID"}))
	r.Take(21, event(&spatev1.StageEnded{StageIndex: 1, Failure: "skipped: dead"}))
	r.Take(22, event(&spatev1.RunEnded{Outcome: spatev1.Outcome_OUTCOME_DONE}))
	if part, _ := s.Part(); part != 1 || s.Verdict != "VALID" || r.Current() != s || r.Ended == nil || len(r.All()) != 2 {
		t.Errorf("after the end: %+v", s)
	}
	if r.Stage(1).Started != nil || r.Stage(2) != nil {
		t.Error("a stage that was skipped has started, or one that did not come is there")
	}
}

// What a follower receives again after a broken connection does not count twice, and neither do the windows that a
// restarted coordinator sends again.
func TestEventsCountOnce(t *testing.T) {
	r := follow(&spatev1.StageStarted{}, window(0), window(1))
	if r.Take(3, event(window(1))) || r.Take(2, event(&spatev1.Notice{})) {
		t.Error("an event was taken twice")
	}
	r.Take(4, event(window(0)))
	r.Take(5, event(window(1)))
	r.Take(6, event(window(2)))
	if got := r.Stage(0).Errors["timeout"]; got != 3 || len(r.Windows(0)) != 3 || r.last != 6 {
		t.Errorf("%d errors in %d windows, last event %d", got, len(r.Windows(0)), r.last)
	}
	if !r.Take(0, event(&spatev1.Notice{})) || len(r.Notices()) != 1 {
		t.Error("an event of the follower's own does not count")
	}
}

// Of ten hours the last windows are whole and without a gap, and the samples before them are evenly spread.
func TestTenHours(t *testing.T) {
	r := follow(&spatev1.RunStarted{Agents: []*spatev1.AgentInfo{{Name: "a"}}}, &spatev1.StageStarted{})
	const seconds = 36_000
	for n := range uint32(seconds) {
		r.Take(0, event(window(n)))
	}
	all := r.Windows(0)
	whole := 0
	for i, w := range all {
		switch {
		case len(w.GetAgents()) == 1:
			whole++
		case whole > 0:
			t.Fatalf("window %d is a sample behind a whole one", w.GetNumber())
		case i > 0 && w.GetNumber()-all[i-1].GetNumber() != 64:
			t.Fatalf("window %d after %d", w.GetNumber(), all[i-1].GetNumber())
		}
	}
	if whole < MaxWindows || whole > MaxWindows*5/4 || all[0].GetNumber() != 0 || len(all)-whole < MaxSamples/2-1 {
		t.Errorf("%d windows of which %d are whole, the first is %d", len(all), whole, all[0].GetNumber())
	}
	for i, w := range all[len(all)-whole:] {
		if want := uint32(seconds - whole + i); w.GetNumber() != want {
			t.Fatalf("window %d, want %d", w.GetNumber(), want)
		}
	}
	if r.Stage(0).Errors["timeout"] != seconds {
		t.Errorf("%d errors", r.Stage(0).Errors["timeout"])
	}
}

func TestStarts(t *testing.T) {
	if _, seconds := Starts(nil); seconds != 0 {
		t.Error("no windows span no time")
	}
	merged := window(7) // covers 5, 6 and 7
	merged.Whole.Seconds, merged.Whole.Started = 3, 30
	if started, seconds := Starts([]*spatev1.StageWindow{merged, window(8)}); seconds != 4 || started != 10 {
		t.Errorf("%v in %d s", started, seconds)
	}
}

// Whatever events come in whatever order, nothing panics, and what is kept stays within its bounds.
func TestAnyEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		index := rapid.Uint32Range(0, 3)
		number := rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32())
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			var m proto.Message
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0:
				m = &spatev1.RunStarted{Stages: index.Draw(t, "stages"), Agents: []*spatev1.AgentInfo{nil, {Name: "a"}}}
			case 1:
				m = &spatev1.StageStarted{StageIndex: index.Draw(t, "index"), ExpectedRequests: rapid.Uint64().Draw(t, "n"),
					Expected: &durationpb.Duration{Seconds: rapid.Int64().Draw(t, "s")}}
			case 2:
				m = &spatev1.StageProgress{StageIndex: index.Draw(t, "index"), Completed: rapid.Uint64().Draw(t, "n"),
					Elapsed: &durationpb.Duration{Seconds: rapid.Int64().Draw(t, "s")}}
			case 3:
				w := window(number.Draw(t, "window"))
				w.StageIndex = index.Draw(t, "index")
				if rapid.Bool().Draw(t, "empty") {
					w.Whole = nil
				}
				w.Errors = map[string]uint64{fmt.Sprint(number.Draw(t, "class")): rapid.Uint64().Draw(t, "n")}
				m = w
			case 4:
				m = &spatev1.StageEnded{StageIndex: index.Draw(t, "index")}
			case 5:
				m = &spatev1.AgentChanged{Joined: rapid.Bool().Draw(t, "joined")}
			case 6:
				m = &spatev1.Notice{}
			case 7:
				m = &spatev1.RunEnded{}
			default:
				r.Take(0, nil)
				continue
			}
			r.Take(rapid.Uint64Range(0, 300).Draw(t, "number"), event(m))
			look(t, r)
		}
	})
}

// look calls what views call, and checks the bounds.
func look(t *rapid.T, r *Run) {
	r.Left()
	if part, _ := r.Part(); !(part >= 0 && part <= 1) {
		t.Fatalf("part %v", part)
	}
	for _, s := range r.All() {
		if part, _ := s.Part(); part < 0 || part > 1 {
			t.Fatalf("part %v", part)
		}
		s.Left()
		Starts(r.Windows(s.Index))
		if len(s.Errors) > maxErrors+1 {
			t.Fatalf("%d classes of errors", len(s.Errors))
		}
	}
	r.Current()
}

// FuzzEvents: events as a coordinator of another version, or a broken one, may send them.
func FuzzEvents(f *testing.F) {
	for _, m := range []proto.Message{
		window(0), &spatev1.RunStarted{}, &spatev1.StageStarted{}, &spatev1.StageProgress{},
	} {
		data, err := proto.Marshal(event(m))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	f.Fuzz(func(_ *testing.T, first, second []byte) {
		r := follow(&spatev1.StageStarted{})
		for _, data := range [][]byte{first, second, first} {
			e := &spatev1.RunEvent{}
			if proto.Unmarshal(data, e) != nil {
				return
			}
			r.Take(0, e)
			for _, s := range r.All() {
				s.Part()
				s.Left()
				Starts(r.Windows(s.Index))
			}
			r.Left()
			r.Current()
		}
	})
}

// The memory of a run does not grow with what a coordinator invents.
func TestWhatIsInventedIsBounded(t *testing.T) {
	r := follow(&spatev1.StageStarted{})
	big := window(0)
	for i := range 2000 {
		big.Agents = append(big.Agents, &spatev1.WindowPart{Name: fmt.Sprintf("an invented agent with number %d", i)})
		r.Take(0, event(&spatev1.Notice{Text: fmt.Sprint(i)}))
	}
	r.Take(0, event(big))
	for i := range uint32(2 * maxAgents) {
		r.Take(0, event(&spatev1.AgentChanged{Agent: &spatev1.AgentInfo{Name: fmt.Sprint(i)}}))
		r.Take(0, event(&spatev1.StageEnded{StageIndex: i}))
	}
	if len(r.Windows(0)[0].GetAgents()) > 0 || len(r.Agents()) != maxAgents || len(r.All()) != maxStages ||
		len(r.Notices()) != MaxNotices {
		t.Errorf("%d agents, %d stages, %d notices", len(r.Agents()), len(r.All()), len(r.Notices()))
	}
}
