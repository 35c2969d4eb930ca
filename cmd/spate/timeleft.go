package main

import (
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// timeLeft estimates how long the rest of a run takes. The zero value knows nothing.
type timeLeft struct {
	stages []*spatev1.Stage // in the order in which they run; a sweep or a search is one of them
	series bool             // a sweep or a search is among them: stages of the run are not those of the list
	spent  time.Duration    // of the stages that have ended
}

// sum is the estimate in seconds: the rest of the stage in progress, the stages after it and the pauses before them.
func (t *timeLeft) sum(began *spatev1.StageBegan, last *spatev1.StageProgress) sum {
	if t.series {
		all := outlookOf(t.stages).time
		all.known = max(0, all.known-(t.spent+last.GetElapsed().AsDuration()).Seconds())
		all.atMost = true
		return all
	}
	rest, next := stageLeft(began, last), int(began.GetStageIndex())+1
	if next < len(t.stages) {
		rest.add(outlookOf(t.stages[next:]).time)
		rest.known += t.stages[next].GetPause().AsDuration().Seconds()
	}
	return rest
}

// stageLeft is the rest of the stage in progress, by its time, or by its requests at the pace so far.
func stageLeft(began *spatev1.StageBegan, last *spatev1.StageProgress) sum {
	elapsed := last.GetElapsed().AsDuration().Seconds()
	if d := began.GetExpected().AsDuration().Seconds(); d > 0 {
		return sum{known: max(0, d-elapsed), atMost: began.GetExpectedRequests() > 0}
	}
	n, ended := float64(began.GetExpectedRequests()), float64(last.GetCompleted())
	if n == 0 || ended == 0 {
		return sum{unknown: true}
	}
	return sum{known: elapsed * max(0, n/ended-1), about: true}
}

// words say how long the rest of the run takes: "~1m40s left". Empty: it is not known.
func (t *timeLeft) words(began *spatev1.StageBegan, last *spatev1.StageProgress) string {
	if len(t.stages) == 0 {
		return ""
	}
	s := t.sum(began, last)
	s.about = true // preparing and draining are not in it
	text := inTable.say(s, span(math.Round(s.known)))
	if text == "n/a" {
		return ""
	}
	return "run " + text + " left"
}
