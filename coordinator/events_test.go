package coordinator

import (
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
		l := newEventLog(nil, 0)
		var follower struct {
			number uint64
			stages uint32
			last   int64
		}
		read := func() {
			events, _, _ := l.after(follower.number)
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
				l.add(stageEvent(stages))
				stages++
			case 1:
				for range rapid.IntRange(1, 700).Draw(t, "seconds") {
					elapsed++
					l.add(progressEvent(elapsed))
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
	l := newEventLog(nil, 0)
	for range 3 * maxNotices {
		l.add(noticeEvent())
	}
	events, ended, _ := l.after(0)
	if len(events) != maxNotices || ended || events[maxNotices-1].GetEvent().GetNotice().GetText() == "x" {
		t.Errorf("%d notices, the last %v", len(events), events[len(events)-1])
	}
}

func TestNothingFollowsTheEnd(t *testing.T) {
	l := newEventLog(nil, 0)
	_, _, more := l.after(0)
	l.add(&spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{}}})
	<-more
	l.add(noticeEvent())
	if events, ended, _ := l.after(0); len(events) != 1 || !ended {
		t.Errorf("%d events, ended %v", len(events), ended)
	}
}

// A new log continues after all numbers that followers may have seen, including those of lost progress.
func TestALogGoesOnBehindWhatFollowersHaveSeen(t *testing.T) {
	first := newEventLog(nil, 0)
	first.add(stageEvent(0))
	first.add(noticeEvent())
	known, _, _ := first.after(0)
	first.add(progressEvent(1))
	first.add(progressEvent(2))
	seen, _, _ := first.after(0)
	again := newEventLog(known, 1<<32)
	again.add(stageEvent(1))
	for after, want := range map[uint64]int{0: 3, 1: 2, 2: 1, seen[len(seen)-1].GetNumber(): 1, 1<<32 + 1: 0,
		1 << 40: 0} {
		if events, _, _ := again.after(after); len(events) != want {
			t.Errorf("%d events after %d, want %d", len(events), after, want)
		}
	}
}
