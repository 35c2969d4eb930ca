package judge

import (
	"fmt"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// Verdict is what a run comes to.
type Verdict struct {
	// Wrong is what may not be, a sentence each. Empty: nothing.
	Wrong []string
	// Complete says that the result does; Outcome is what it says of its end, empty if it has none.
	Complete bool
	// Promised says that it had to.
	Promised bool
	Outcome  string
	// Asked are the requests that the script asks for, as far as they are known; Sent those that the simulator had,
	// each once; Kept those in the result; Named those that are missing and said to be.
	Asked, Sent, Kept, Named int
	// Lost are those that are missing without being named, or though completeness was promised; Twice those that are
	// counted twice.
	Lost, Twice int
}

// late is how much later than it may be a request may be seen, on a busy machine.
const late = 700 * time.Millisecond

// Judge holds a run's result against the truth.
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

// judge gathers a verdict.
type judge struct {
	*Evidence
	Verdict
	served map[ID][]Served
	rows   map[ID][]*Row
}

func (j *judge) wrong(format string, args ...any) {
	j.Wrong = append(j.Wrong, fmt.Sprintf(format, args...))
}

// stage is one stage, with what the script asks of it and what is known of it.
type stage struct {
	*judge
	*Stage
	load  script.Load
	start Instant // on the clock of the simulator's log
	rows  []*Row  // all of the stage
	// overdue counts requests that an agent was to send while it stood still, before what is said to be lost with it.
	overdue map[string]int
}

// judgeStage looks at one stage.
func (j *judge) judgeStage(claims *Stage, load script.Load) {
	s := &stage{judge: j, Stage: claims, load: load, overdue: map[string]int{}}
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

// judgeStart reads the stage's start. It reports whether there is one.
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

// in is an instant of a stage, from nanoseconds since its start.
func (s *stage) in(ns int64) Instant { return s.start + Instant(ns) }
