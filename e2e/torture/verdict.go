package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Verdict is what a run comes to.
type Verdict struct {
	// Wrong is what may not be, a sentence each. Empty: nothing.
	Wrong []string
	// Complete says that the result does.
	Complete bool
	// Asked are the requests of the plan, as far as they are known; Sent those that the simulator had, each once; Kept those in the
	// result; Named those that are missing and said to be.
	Asked, Sent, Kept, Named int
	// Lost are those that are missing without being named, or though completeness was promised; Twice those that are counted twice.
	Lost, Twice int
}

// Judge holds a run's result against the truth.
func Judge(e *Evidence) Verdict {
	j := &judge{Evidence: e, served: map[ID][]Served{}, rows: map[ID][]Row{}}
	for _, s := range e.Served {
		j.served[s.ID] = append(j.served[s.ID], s)
	}
	for _, r := range e.Rows {
		j.rows[r.ID()] = append(j.rows[r.ID()], r)
	}
	j.Complete, j.Sent, j.Kept = e.Result.Run.Complete, len(j.served), len(j.rows)
	j.judgeRun()
	j.judgeEnds()
	j.judgeRows()
	for i, stage := range e.Result.Stages {
		j.judgeCounts(stage)
		j.judgeLive(stage)
		if i < len(e.Records) {
			j.judgeStage(stage, e.Records[i])
		}
	}
	return j.Verdict
}

// judge gathers a verdict.
type judge struct {
	*Evidence
	Verdict
	served map[ID][]Served
	rows   map[ID][]Row
}

func (j *judge) wrong(format string, args ...any) {
	j.Wrong = append(j.Wrong, fmt.Sprintf(format, args...))
}

// judgeRun looks at what the run says of itself.
func (j *judge) judgeRun() {
	run := j.Result.Run
	if j.Script.Promised() && !run.Complete {
		j.Lost++
		j.wrong("the run must be complete, and is not: %s", strings.Join(run.Missing, "; "))
	}
	if run.Complete != (len(run.Missing) == 0) {
		j.wrong("the run is complete: %v, and says %d things are missing", run.Complete, len(run.Missing))
	}
	if j.Ended != nil && !j.Disk && (j.Ended.GetComplete() != run.Complete || run.Outcome == nil) {
		j.wrong("followers were told complete: %v (%s), the result says %v", j.Ended.GetComplete(), j.Ended.GetReason(), run.Complete)
	}
	if run.Outcome == nil && j.Ended != nil && !strings.Contains(j.Ended.GetReason(), "no space left") {
		j.wrong("the run's end is not in the ledger, and followers were not told why: %q", j.Ended.GetReason())
	}
	if len(j.Result.Stages) != len(j.Records) {
		j.wrong("%d stages in the result, %d in the ledger", len(j.Result.Stages), len(j.Records))
	}
}

// late is how much later than it may be a request may be seen, on a busy machine.
const late = 700 * time.Millisecond

// judgeEnds looks for load that nobody attends to any more: what starts after the lease of agents that have no coordinator, or a run.
func (j *judge) judgeEnds() {
	lease := j.Script.LeaseOf()
	for _, s := range j.Served {
		if after := s.Received.Sub(j.End); after > lease+late {
			j.wrong("stage %d request %d began %v after the run's end", s.Stage, s.Index, after)
		}
		for _, gone := range j.Gone {
			if after := s.Received.Sub(gone.From); after > lease+late && s.Received < gone.To {
				j.wrong("stage %d request %d began when the coordinator had been gone for %v, longer than the lease of %v", s.Stage, s.Index, after, lease)
			}
		}
	}
}

// judgeRows looks at single rows: each request is there once, and what counts as completed was answered.
func (j *judge) judgeRows() {
	for id, rows := range j.rows {
		if len(rows) > 1 {
			j.Twice++
			j.wrong("stage %d request %d has %d rows, of %s and %s", id.Stage, id.Index, len(rows), rows[0].Agent, rows[1].Agent)
		}
		if rows[0].Completed() && !slices.ContainsFunc(j.served[id], func(s Served) bool { return s.Answered }) {
			j.Twice++
			j.wrong("stage %d request %d counts as completed, and was not answered", id.Stage, id.Index)
		}
	}
}

// counts are numbers of rows.
type counts struct{ completed, failed, cancelled, unmeasured uint64 }

func (c *counts) add(r Row) {
	switch {
	case r.Unmeasured:
		c.unmeasured++
	case r.Cancelled:
		c.cancelled++
	case r.ErrorClass != nil:
		c.failed++
	default:
		c.completed++
	}
}

// judgeCounts compares a stage's counts with its rows, as a whole and by agent.
func (j *judge) judgeCounts(stage aggregate.StageResult) {
	var all counts
	byAgent := map[string]uint64{}
	for _, r := range j.Rows {
		if r.Stage != stage.Index {
			continue
		}
		all.add(r)
		if r.Completed() && !r.Unmeasured {
			byAgent[r.Agent]++
		}
	}
	q := stage.Requests
	is := counts{q.Completed, q.Failed, q.Cancelled, q.Unmeasured}
	if !stage.Complete {
		is.unmeasured = min(is.unmeasured, all.unmeasured) // those of a lost agent that never ended have no row
	}
	if is != all {
		j.wrong("stage %d: %+v, its rows come to %+v", stage.Index, q, all)
	}
	j.judgeMerged(stage, all.completed)
	for _, a := range stage.Agents {
		byAgent[a.Name] -= a.Requests.Completed // several processes may have had the name
	}
	for name, off := range byAgent {
		if off != 0 {
			j.wrong("stage %d: agent %s completed %d less than its rows come to", stage.Index, name, int64(off))
		}
	}
}

// judgeMerged compares what was merged with the rows of completed requests, all of which are of one length.
func (j *judge) judgeMerged(stage aggregate.StageResult, completed uint64) {
	values := uint64(0)
	if stage.E2E != nil {
		values = stage.E2E.Count
	}
	if tokens := completed * uint64(j.Script.OutputTokens); stage.OutputTokens != tokens || values != completed {
		j.wrong("stage %d: %d requests of %d tokens in its rows, and %d tokens and %d times in its merged numbers", stage.Index, completed, j.Script.OutputTokens,
			stage.OutputTokens, values)
	}
}

// judgeLive compares what followers were told last of a stage with the result, which is worked out anew from the ledger.
func (j *judge) judgeLive(stage aggregate.StageResult) {
	live := j.Live[stage.Index]
	if live == nil || j.Disk {
		return
	}
	q := stage.Requests
	if live.GetCompleted() > q.Completed+q.Failed || live.GetFailed() > q.Failed || stage.Complete && live.GetCompleted() != q.Completed+q.Failed {
		j.wrong("stage %d: followers were told that %d ended, the result has %d", stage.Index, live.GetCompleted(), q.Completed+q.Failed)
	}
}

// judgeStage looks at what is missing of a stage.
func (j *judge) judgeStage(stage aggregate.StageResult, rec *spatev1.StageRecord) {
	s, err := scheduleOf(rec)
	if err != nil {
		j.wrong("%v", err)
		return
	}
	start, began := startOf(rec)
	if !began {
		if stage.Complete {
			j.wrong("stage %d never began, and is complete", stage.Index)
		}
		return
	}
	if s.known {
		j.Asked += len(s.asked)
	}
	m := missing{judge: j, stage: stage, rec: rec, schedule: s, start: start}
	m.judgeTwice()
	switch {
	case stage.Complete:
		m.judgeComplete()
	default:
		m.judgeNamed()
	}
}

// missing looks at what one stage lacks.
type missing struct {
	*judge
	stage    aggregate.StageResult
	rec      *spatev1.StageRecord
	schedule schedule
	start    clock.Instant
}

// judgeTwice says where an arrival of an open loop was sent twice: who takes a part over must know that nobody else sends it.
func (m *missing) judgeTwice() {
	for id, all := range m.served {
		if id.Stage == m.stage.Index && len(all) > 1 && m.schedule.open {
			m.wrong("stage %d request %d was sent %d times, the last time %v after the start", id.Stage, id.Index, len(all), all[len(all)-1].Received.Sub(m.start))
		}
	}
}

// judgeComplete says where a result that claims to be complete is not: it has exactly what the plan asks for, and all that was answered.
func (m *missing) judgeComplete() {
	index := m.stage.Index
	for i := range m.schedule.asked {
		if len(m.rows[ID{index, i}]) == 0 {
			m.Lost++
			m.wrong("stage %d is complete, and lacks request %d", index, i)
		}
	}
	for id, rows := range m.rows {
		if id.Stage == index {
			m.judgeAsked(id, rows[0])
		}
	}
	for id, all := range m.served {
		if id.Stage == index {
			m.judgeServed(id, all)
		}
	}
}

// judgeAsked looks at a row of a complete stage.
func (m *missing) judgeAsked(id ID, r Row) {
	if _, asked := m.schedule.asked[id.Index]; m.schedule.known && !asked {
		m.wrong("stage %d has request %d, which the plan does not", id.Stage, id.Index)
	}
	if r.ErrorClass != nil {
		m.wrong("stage %d request %d failed (%s), and no endpoint did", id.Stage, id.Index, *r.ErrorClass)
	}
}

// judgeServed looks at what the server had of a request of a complete stage.
func (m *missing) judgeServed(id ID, all []Served) {
	switch rows := m.rows[id]; {
	case len(rows) == 0:
		m.Lost++
		m.wrong("stage %d is complete, and lacks request %d, which the server had", id.Stage, id.Index)
	case len(all) > 1:
		m.wrong("stage %d is complete, and request %d was sent %d times", id.Stage, id.Index, len(all))
	case all[0].Answered && !rows[0].Completed():
		m.wrong("stage %d is complete, and request %d was answered and does not count as that", id.Stage, id.Index)
	}
}
