package judge

import (
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/e2e/torture/script"
)

// judgeRun judges what the result says about the run.
func (j *judge) judgeRun() {
	run := j.Results.Run
	if run.ID != j.Notes.RunID || run.Seed == nil || *run.Seed != j.Script.Seed || run.Plan == nil ||
		*run.Plan != "torture" {
		j.wrong("the result is of run %s, seed %v, plan %v: it should be of %s", run.ID, run.Seed, run.Plan,
			j.Notes.RunID)
	}
	if j.promised() && !run.Complete {
		j.Lost++
		j.wrong("the run must be complete, and is not: %s", strings.Join(run.Missing, "; "))
	}
	j.judgeStages()
	j.judgeOutcome()
}

// judgeStages compares the stages with those of the script: each is there, in order, or the run says that it is
// missing.
func (j *judge) judgeStages() {
	run, stages, loads := j.Results.Run, j.Results.Stages, j.Script.Loads
	if run.StagesPlanned != len(loads) || len(stages) > len(loads) {
		j.wrong("%d stages are said to be planned and %d are there: the script has %d", run.StagesPlanned,
			len(stages), len(loads))
	}
	whole := len(stages) == len(loads)
	for i, s := range stages {
		if s.Index != uint32(i) {
			j.wrong("stage %d stands in place %d", s.Index, i)
		}
		if s.Complete != (len(s.Missing) == 0) {
			j.wrong("stage %d is complete: %v, and says %d things are missing", s.Index, s.Complete, len(s.Missing))
		}
		whole = whole && s.Complete
	}
	whole = whole && j.Outcome == "done"
	if run.Complete != whole || run.Complete != (len(run.Missing) == 0) {
		j.wrong("the run is complete: %v, with %d of %d stages, outcome %q and %d things that are missing",
			run.Complete, len(stages), len(loads), j.Outcome, len(run.Missing))
	}
	for id := range j.served {
		if int(id.Stage) >= len(stages) {
			j.wrong("the server had request %d of stage %d, which is not in the result", id.Index, id.Stage)
			return
		}
	}
}

// judgeOutcome judges how the result says that the run ended.
func (j *judge) judgeOutcome() {
	run, told := j.Results.Run, j.Notes.Ended
	full := j.Notes.struck(script.FullDisk)
	switch {
	case j.Outcome == "" && (told == nil || !full || !strings.Contains(told.Reason, "no space left")):
		j.wrong("the result has no end of the run")
	case !slices.Contains([]string{"done", "failed", ""}, j.Outcome):
		j.wrong("the run ended as %q, and no one stopped it", j.Outcome)
	case j.Outcome == "done" && len(j.Results.Stages) < len(j.Script.Loads):
		j.wrong("the run is done after %d of %d stages", len(j.Results.Stages), len(j.Script.Loads))
	case j.Outcome == "failed" && (run.Reason == nil || *run.Reason == ""):
		j.wrong("the run failed, and does not say why")
	}
	j.judgeEndTold(full)
}

// judgeEndTold compares what followers and the client received at the end with the result. They may not have heard
// everything about a full disk.
func (j *judge) judgeEndTold(full bool) {
	complete := j.Results.Run.Complete
	if told := j.Notes.Ended; told != nil && !full && told.Complete != complete {
		j.wrong("followers were told complete: %v (%s), the result says %v", told.Complete, told.Reason, complete)
	}
	if code := j.Notes.ClientCode; code != nil && (*code == 0) != complete {
		j.wrong("the client ended with %d, and the result is complete: %v", *code, complete)
	}
}

// judgeLoad compares the stage's load point with the script's.
func (s *stage) judgeLoad() {
	l, is := s.load, s.Load
	same := equal(is.Concurrency, l.Concurrency) && equal(is.Rate, float64(l.Rate)) &&
		equal(is.Requests, uint64(l.Requests))
	if l.Rate > 0 {
		same = same && equal(is.Arrival, l.Arrival)
	}
	if l.Requests == 0 {
		same = same && is.DurationS != nil && math.Abs(*is.DurationS-l.For.Seconds()) < 1e-9
	} else {
		same = same && is.DurationS == nil && equal(s.Requests.Planned, uint64(l.Requests))
	}
	if !same || s.Target != "server" {
		s.wrong("stage %d has another load than the script's %s", s.Index, l)
	}
}

// equal reports whether a field has a value. The zero value means that the field must be missing.
func equal[T comparable](field *T, want T) bool {
	var none T
	if field == nil {
		return want == none
	}
	return *field == want
}

// judgeTold compares the last progress of a stage that followers received with the result, which is computed again from
// the ledger.
func (s *stage) judgeTold() {
	told, ok := s.Notes.Told[s.Index]
	if !ok || s.Notes.struck("full-disk") {
		return
	}
	ended := s.Requests.Completed + s.Requests.Failed
	if told.Ended > ended || told.Failed > s.Requests.Failed || s.Complete && told.Ended != ended {
		s.wrong("stage %d: followers were told that %d ended, the result has %d", s.Index, told.Ended, ended)
	}
}
