// Package watch folds the events of a run into its state as a person watches it: for the terminal and for the live
// page. It reads no clock: all times are the coordinator's.
//
// It also puts this state into words and tables, the same for both. What plans, servers and coordinators say is
// harmless for a terminal in all of it; a page has to escape it.
package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Bounds of a run's state, so that a run of many hours and whatever a coordinator sends fit into memory.
const (
	// MaxWindows is how many windows are kept whole: the latest of the run.
	MaxWindows = 600
	// MaxSamples is how many earlier windows are kept without their regions and agents. If there are more, every second
	// one is dropped, which leaves samples spread evenly over the run.
	MaxSamples = 600
	// MaxNotices is how many notices are kept: the latest.
	MaxNotices = 200
	// maxStages is how many stages a run may have, which is also the limit of plans.
	maxStages = 10_000
	// maxAgents is how many agents a run may have. A coordinator takes fewer.
	maxAgents = 16_384
	// maxErrors is how many classes of errors are counted one by one.
	maxErrors = 64
	// maxEvent is the size of an event that is kept, in bytes. Windows with more lose their agents and regions.
	maxEvent = 64 << 10
)

// Run is the state of a run. The zero value is not valid: New makes one. It is not safe for concurrent use.
type Run struct {
	// Started is when the run started. Zero: it waits.
	Started time.Time
	// Latest is the time of the latest event.
	Latest time.Time
	// Ended is how the run ended. Nil: it has not.
	Ended *spatev1.RunEnded
	// Stages is the most stages that the run has: templates may become fewer. 0: not known.
	Stages uint32
	// AtMost reports whether Stages is only an upper bound, as far as the plan is known.
	AtMost bool

	last    uint64 // highest number of any event
	stages  []*Stage
	agents  []*Agent
	byName  map[string]*Agent
	notices []Notice
	windows windows
	left    left
}

// Agent is an agent that takes or took part in a run.
type Agent struct {
	Info *spatev1.AgentInfo
	// Lost is true from the agent's loss until it joins again.
	Lost bool
	// Joined reports whether the agent joined during the run.
	Joined bool
	// Latest is what the agent measured in the last window that names it. Nil: no window does, because the agent
	// measured nothing, or too many agents did.
	Latest *spatev1.WindowPart
	// Stage and Window say which window Latest is of.
	Stage, Window uint32
}

// Notice is a message to people, or the loss or joining of an agent, of which Change is not nil.
type Notice struct {
	Time     time.Time
	Severity spatev1.Severity
	Text     string
	Change   *spatev1.AgentChanged
}

// New returns the state of a run of which nothing has happened.
func New() *Run { return &Run{byName: map[string]*Agent{}} }

// Take takes in an event with its number in the run. It returns false for an event that it has already taken, as a
// follower that connects again may send. Number 0 is for events that the follower itself made: they always count.
func (r *Run) Take(number uint64, e *spatev1.RunEvent) bool {
	if number > 0 {
		if number <= r.last {
			return false
		}
		r.last = number
	}
	if at := e.GetTime(); at.IsValid() && at.AsTime().After(r.Latest) {
		r.Latest = at.AsTime()
	}
	switch e := e.GetEvent().(type) {
	case *spatev1.RunEvent_RunStarted:
		r.started(e.RunStarted)
	case *spatev1.RunEvent_StageStarted:
		if s := r.put(e.StageStarted.GetStageIndex()); s != nil {
			s.Started = e.StageStarted
		}
	case *spatev1.RunEvent_StageProgress:
		r.progress(e.StageProgress)
	case *spatev1.RunEvent_StageWindow:
		r.window(e.StageWindow)
	case *spatev1.RunEvent_StageEnded:
		r.stageEnded(e.StageEnded)
	case *spatev1.RunEvent_AgentChanged:
		r.changed(e.AgentChanged)
	case *spatev1.RunEvent_Notice:
		r.notice(Notice{Severity: e.Notice.GetSeverity(), Text: e.Notice.GetText()})
	case *spatev1.RunEvent_RunEnded:
		r.Ended = e.RunEnded
	}
	return true
}

// Most returns the number of stages in figures: "8", or "≤8" if it is an upper bound.
func (r *Run) Most() string {
	if r.AtMost {
		return fmt.Sprintf("≤%d", r.Stages)
	}
	return fmt.Sprint(r.Stages)
}

func (r *Run) started(e *spatev1.RunStarted) {
	r.Started, r.Stages = r.Latest, e.GetStages()
	r.left = left{stages: e.GetPlan()[:min(len(e.GetPlan()), maxStages)]}
	r.left.series = slices.ContainsFunc(r.left.stages, func(s *spatev1.PlannedStage) bool { return s.GetStages() > 1 })
	r.AtMost = r.left.series
	for _, a := range e.GetAgents() {
		r.agent(a)
	}
}

// agent returns the agent with a name, adding it if there is room. It returns nil if there is none.
func (r *Run) agent(info *spatev1.AgentInfo) *Agent {
	if a := r.byName[info.GetName()]; a != nil {
		a.Info = info
		return a
	}
	if len(r.agents) == maxAgents {
		return nil
	}
	a := &Agent{Info: info}
	r.agents = append(r.agents, a)
	r.byName[info.GetName()] = a
	return a
}

func (r *Run) changed(e *spatev1.AgentChanged) {
	severity := spatev1.Severity_SEVERITY_WARNING
	if e.GetJoined() {
		severity = spatev1.Severity_SEVERITY_INFO
	}
	r.notice(Notice{Severity: severity, Change: e})
	if a := r.agent(e.GetAgent()); a != nil {
		a.Joined = a.Joined || e.GetJoined()
		a.Lost = !e.GetJoined()
	}
}

func (r *Run) notice(n Notice) {
	n.Time = r.Latest
	if len(r.notices) == MaxNotices {
		r.notices = slices.Delete(r.notices, 0, 1)
	}
	r.notices = append(r.notices, n)
}

// Agents returns the agents in the order in which they came. The caller must not change them.
func (r *Run) Agents() []*Agent { return r.agents }

// Notices returns the latest notices, the newest last. The caller must not change them.
func (r *Run) Notices() []Notice { return r.notices }

// All returns the stages that started or ended, by index. The caller must not change them.
func (r *Run) All() []*Stage { return r.stages }

// Stage returns the stage with an index, nil if it neither started nor ended.
func (r *Run) Stage(index uint32) *Stage {
	i, found := r.find(index)
	if !found {
		return nil
	}
	return r.stages[i]
}

// Current returns the stage that started last: the one in progress, if there is any. It returns nil before the first.
func (r *Run) Current() *Stage {
	for _, s := range slices.Backward(r.stages) {
		if s.Started != nil {
			return s
		}
	}
	return nil
}

// left estimates how long the rest of a run takes. The zero value knows nothing.
type left struct {
	stages []*spatev1.PlannedStage // in the order in which they run; a template is one of them
	series bool                    // there is a template: the run's stages differ from those in the list
	spent  time.Duration           // on stages that have ended
	pace   map[pair]float64        // the latest seconds per request of a closed loop
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
	ended := lists.Count(r.stages, func(s *Stage) bool { return s.Ended != nil })
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
