package watch

import (
	"slices"
	"time"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// left estimates how long the rest of a run takes. The zero value knows nothing.
type left struct {
	stages []*spatev1.PlannedStage // in the order in which they run; a template is one of them
	series bool                    // there is a template: the run's stages differ from those in the list
	spent  time.Duration           // on stages that have ended
	pace   map[pair]float64        // the latest seconds per request of a closed loop
}

// newLeft returns the estimate of a run with these stages, before it starts.
func newLeft(stages []*spatev1.PlannedStage) left {
	return left{stages: stages, series: slices.ContainsFunc(stages, func(s *spatev1.PlannedStage) bool {
		return s.GetStages() > 1
	})}
}

// pair names what a closed loop's pace depends on most.
type pair struct{ target, workload string }

func pairOf(s *spatev1.PlannedStage) pair { return pair{s.GetTarget(), s.GetWorkload()} }

// see records the progress of the stage in progress.
func (t *left) see(began *spatev1.StageStarted, last *spatev1.StageProgress) {
	i := int(began.GetStageIndex())
	if t.series || i >= len(t.stages) || last.GetCompleted() == 0 {
		return
	}
	if streams := t.stages[i].GetConcurrency(); streams > 0 {
		if t.pace == nil {
			t.pace = make(map[pair]float64)
		}
		took := last.GetElapsed().AsDuration().Seconds() * float64(streams) / float64(last.GetCompleted())
		t.pace[pairOf(t.stages[i])] = took
	}
}

// sum returns the estimate in seconds: the rest of the stage that started last, the stages after it and the pauses
// before them.
func (t *left) sum(at *Stage) plans.Sum {
	if t.series {
		all, spent := plans.TimeOf(t.stages), t.spent
		if at.Ended == nil {
			spent += at.Elapsed()
		}
		all.Known = max(0, all.Known-spent.Seconds())
		all.AtMost = true
		return all
	}
	var rest plans.Sum
	if at.Ended == nil {
		rest = stageLeft(at.Started, at.Progress)
	}
	for _, s := range t.stages[min(int(at.Index)+1, len(t.stages)):] {
		rest.Add(t.stage(s))
		rest.Known += s.GetPause().AsDuration().Seconds()
	}
	return rest
}

// stage returns the time of a later stage. A closed loop that ends only by its requests is assumed to keep the latest
// pace of its pair.
func (t *left) stage(s *spatev1.PlannedStage) plans.Sum {
	pace, seen := t.pace[pairOf(s)]
	streams, requests := s.GetConcurrency(), s.GetExpectedRequests()
	if s.GetExpected() != nil || requests == 0 || !seen || streams == 0 {
		return plans.Starting(s)
	}
	return plans.Sum{Known: pace * float64(requests) / float64(streams), About: true}
}

// stageLeft returns the rest of the stage in progress, by its time, or by its requests at the pace so far.
func stageLeft(began *spatev1.StageStarted, last *spatev1.StageProgress) plans.Sum {
	elapsed := last.GetElapsed().AsDuration().Seconds()
	if d := began.GetExpected().AsDuration().Seconds(); d > 0 {
		return plans.Sum{Known: max(0, d-elapsed), AtMost: began.GetExpectedRequests() > 0}
	}
	n, ended := float64(began.GetExpectedRequests()), float64(last.GetCompleted())
	if n == 0 || ended == 0 {
		return plans.Sum{Unknown: true}
	}
	return plans.Sum{Known: elapsed * max(0, n/ended-1), About: true}
}

// Left returns how long the rest of the run takes, in seconds, without the time that stages take to be prepared and to
// drain. It is unknown if the coordinator does not say the plan, before the first stage starts, and after the run's
// end.
func (r *Run) Left() plans.Sum {
	s := r.Current()
	if len(r.left.stages) == 0 || s == nil || r.Ended != nil {
		return plans.Sum{Unknown: true}
	}
	sum := r.left.sum(s)
	sum.About = true
	return sum
}

// Part returns which part of the run has passed, from 0 to 1: by the time it took so far and the time left, or else by
// the stages that ended. It returns false if neither is known.
func (r *Run) Part() (float64, bool) {
	took, left := r.Latest.Sub(r.Started).Seconds(), r.Left()
	switch {
	case r.Started.IsZero():
		return 0, false
	case r.Ended != nil:
		return 1, true
	case !left.Unknown && took+left.Known > 0:
		return max(0, min(1, took/(took+left.Known))), true
	case r.AtMost || r.Stages == 0:
		return 0, false
	}
	ended := 0
	for _, s := range r.stages {
		if s.Ended != nil {
			ended++
		}
	}
	return min(1, float64(ended)/float64(r.Stages)), true
}

// Left returns how long the stage still takes, in seconds, without the time to drain. It is unknown unless the stage is
// in progress.
func (s *Stage) Left() plans.Sum {
	if !s.InProgress() {
		return plans.Sum{Unknown: true}
	}
	return stageLeft(s.Started, s.Progress)
}
