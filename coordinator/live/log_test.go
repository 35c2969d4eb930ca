package live

import (
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// add appends an event and reports whether it was added.
func add(l *EventLog, e *spatev1.RunEvent) bool {
	n, ok := l.Number(e)
	if ok {
		l.Append(n)
	}
	return ok
}

func progressEvent(n int64) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{
		Elapsed: &durationpb.Duration{Seconds: n},
	}}}
}

func stageEvent(n uint32) *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_StageEnded{StageEnded: &spatev1.StageEnded{StageIndex: n}}}
}

func noticeEvent() *spatev1.RunEvent {
	return &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{Text: "x"}}}
}

// In whatever order events come and followers read, each follower sees all events but progress exactly once and in
// order, and progress in order. The log stays small.
func TestFollowersSeeEventsOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewEventLog(nil, 0)
		var follower struct {
			number uint64
			stages uint32
			last   int64
		}
		read := func() {
			events, _, _ := l.After(follower.number)
			for _, n := range events {
				if n.GetNumber() <= follower.number {
					t.Fatalf("number %d after %d", n.GetNumber(), follower.number)
				}
				follower.number = n.GetNumber()
				e := n.GetEvent()
				if p := e.GetStageProgress(); p != nil {
					if p.GetElapsed().GetSeconds() <= follower.last {
						t.Fatalf("progress %d after %d", p.GetElapsed().GetSeconds(), follower.last)
					}
					follower.last = p.GetElapsed().GetSeconds()
					continue
				}
				if e.GetStageEnded().GetStageIndex() != follower.stages {
					t.Fatalf("stage %d, want %d", e.GetStageEnded().GetStageIndex(), follower.stages)
				}
				follower.stages++
			}
		}
		stages, elapsed := uint32(0), int64(0)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				add(l, stageEvent(stages))
				stages++
			case 1:
				for range rapid.IntRange(1, 700).Draw(t, "seconds") {
					elapsed++
					add(l, progressEvent(elapsed))
				}
			default:
				read()
			}
		}
		read()
		if follower.stages != stages || follower.last != elapsed {
			t.Fatalf("follower saw %d stages and %d s, want %d and %d", follower.stages, follower.last, stages, elapsed)
		}
		if len(l.events) > maxProgress+int(stages) {
			t.Fatalf("%d events kept", len(l.events))
		}
	})
}

func TestNoticesAreBoundedAndTheLastOneSaysSo(t *testing.T) {
	l := NewEventLog(nil, 0)
	for range 3 * maxNotices {
		add(l, noticeEvent())
	}
	events, ended, _ := l.After(0)
	if len(events) != maxNotices || ended || events[maxNotices-1].GetEvent().GetNotice().GetText() == "x" {
		t.Errorf("%d notices, the last %v", len(events), events[len(events)-1])
	}
}

// Of windows the log keeps the last ones, and no other event is lost for them.
func TestTheLastWindowsAreKept(t *testing.T) {
	l := NewEventLog(nil, 0)
	add(l, stageEvent(0))
	const all = 3*maxWindows + 1
	for n := range uint32(all) {
		add(l, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageWindow{StageWindow: &spatev1.StageWindow{Number: n}}})
	}
	events, _, _ := l.After(0)
	windows := events[1:]
	if len(windows) < maxWindows || len(windows) > 2*maxWindows || events[0].GetEvent().GetStageEnded() == nil {
		t.Fatalf("%d events, the first %v", len(events), events[0])
	}
	for i, n := range windows {
		if got, want := n.GetEvent().GetStageWindow().GetNumber(), uint32(all-len(windows)+i); got != want {
			t.Fatalf("window %d, want %d", got, want)
		}
	}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	l := NewEventLog(nil, 0)
	_, _, more := l.After(0)
	add(l, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{}}})
	<-more
	add(l, noticeEvent())
	if events, ended, _ := l.After(0); len(events) != 1 || !ended {
		t.Errorf("%d events, ended %v", len(events), ended)
	}
}

// A new log continues after all numbers that followers may have seen, including those of lost progress.
func TestALogContinuesBehindItsFollowers(t *testing.T) {
	first := NewEventLog(nil, 0)
	add(first, stageEvent(0))
	add(first, noticeEvent())
	known, _, _ := first.After(0)
	add(first, progressEvent(1))
	add(first, progressEvent(2))
	seen, _, _ := first.After(0)
	again := NewEventLog(known, 1<<32)
	add(again, stageEvent(1))
	for after, want := range map[uint64]int{0: 3, 1: 2, 2: 1, seen[len(seen)-1].GetNumber(): 1, 1<<32 + 1: 0,
		1 << 40: 0} {
		if events, _, _ := again.After(after); len(events) != want {
			t.Errorf("%d events after %d, want %d", len(events), after, want)
		}
	}
}
