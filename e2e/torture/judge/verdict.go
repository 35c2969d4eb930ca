package judge

import (
	"fmt"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// Verdict is the result of judging a run.
type Verdict struct {
	// Wrong lists what must not happen, one sentence each. Empty: nothing.
	Wrong []string
	// Complete reports whether the result is complete. Outcome is how the result says the run ended, empty if it says
	// nothing.
	Complete bool
	// Promised reports whether the run had to be complete.
	Promised bool
	Outcome  string
	// Asked is the number of requests that the script asks for, as far as it is known. Sent is the number that the
	// simulator received, each counted once. Kept is the number in the result. Named is the number that the result says
	// are missing.
	Asked, Sent, Kept, Named int
	// Lost is the number of requests that are missing without being named, or although completeness was promised. Twice
	// is the number that are counted twice.
	Lost, Twice int
}

// late is how much later than allowed a request may be seen, on a busy machine.
const late = 700 * time.Millisecond

// Judge compares a run's result with the truth.
func Judge(e *Evidence) Verdict {
	j := &judge{Evidence: e, served: map[ID][]Served{}, rows: map[ID][]*Row{}}
	for _, s := range e.Served {
		j.served[s.ID] = append(j.served[s.ID], s)
	}
	for i := range e.Rows {
		r := &e.Rows[i]
		j.rows[r.ID()] = append(j.rows[r.ID()], r)
	}
	j.Promised = j.promised()
	j.Complete, j.Sent, j.Kept = e.Results.Run.Complete, len(j.served), len(j.rows)
	if o := e.Results.Run.Outcome; o != nil {
		j.Outcome = *o
	}
	j.judgeRun()
	j.judgeEnds()
	j.judgeRows()
	for i := range e.Results.Stages {
		if i < len(e.Script.Loads) {
			j.judgeStage(&e.Results.Stages[i], e.Script.Loads[i])
		}
	}
	return j.Verdict
}

// judge builds a verdict.
type judge struct {
	*Evidence
	Verdict
	served map[ID][]Served
	rows   map[ID][]*Row
}

func (j *judge) wrong(format string, args ...any) {
	j.Wrong = append(j.Wrong, fmt.Sprintf(format, args...))
}

// stage is one stage, with what the script asks for and what is known about it.
type stage struct {
	*judge
	*Stage
	load  script.Load
	start Instant // on the clock of the simulator's log
	rows  []*Row  // all rows of the stage
	// shares are the agents' shares of the load, see sharesAtStart.
	shares []int
	// overdue has, for each request that an agent had to send while it stood still, before what the result says was
	// lost with it, the agents that this may have been.
	overdue []agentSet
}

// judgeStage judges one stage.
func (j *judge) judgeStage(claims *Stage, load script.Load) {
	s := &stage{judge: j, Stage: claims, load: load}
	s.shares = s.sharesAtStart()
	for i := range j.Rows {
		if j.Rows[i].Stage == claims.Index {
			s.rows = append(s.rows, &j.Rows[i])
		}
	}
	s.judgeLoad()
	s.judgeNumbers()
	s.judgeTold()
	s.judgeAgents()
	if !s.judgeStart() {
		return
	}
	s.judgeAbsent()
	s.judgeSchedule()
	s.judgeTimes()
	s.judgeTwice()
	s.judgeMissing()
}

// judgeStart reads the stage's start, and reports whether there is one.
func (s *stage) judgeStart() bool {
	if s.StartTime == nil {
		if s.Complete || len(s.rows) > 0 {
			s.wrong("stage %d never started, and is complete or has rows", s.Index)
		}
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, *s.StartTime)
	if err != nil {
		s.wrong("stage %d: %v", s.Index, err)
		return false
	}
	s.start = s.Notes.instantOf(at)
	return true
}

// in returns an instant of a stage from nanoseconds since its start.
func (s *stage) in(ns int64) Instant { return s.start + Instant(ns) }
