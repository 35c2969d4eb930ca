package judge

import (
	"slices"
)

// judgeRows judges single rows: each request has one row, each row is consistent, and completed requests were answered.
func (j *judge) judgeRows() {
	for id, rows := range j.rows {
		if len(rows) > 1 {
			j.Twice++
			j.wrong("stage %d request %d has %d rows, of %s and %s", id.Stage, id.Index, len(rows), rows[0].Agent,
				rows[1].Agent)
		}
		if int(id.Stage) >= len(j.Results.Stages) {
			j.wrong("a row is of stage %d, which is not in the result", id.Stage)
		}
		if rows[0].Completed() && !slices.ContainsFunc(j.served[id], func(s Served) bool { return s.Answered }) {
			j.Twice++
			j.wrong("stage %d request %d counts as completed, and was not answered", id.Stage, id.Index)
		}
		j.judgeRow(rows[0])
	}
}

func (j *judge) judgeRow(r *Row) {
	if !j.isAgent(r.Agent) {
		j.wrong("stage %d request %d is of %s, which is not in the script", r.Stage, r.Index, r.Agent)
	}
	if r.ErrorClass != nil {
		j.wrong("stage %d request %d failed (%s), and no endpoint did", r.Stage, r.Index, *r.ErrorClass)
	}
	if r.StartNs < r.ScheduledNs || r.EndNs < r.StartNs || r.ScheduledNs < 0 {
		j.wrong("stage %d request %d: scheduled at %d, started at %d, ended at %d ns", r.Stage, r.Index, r.ScheduledNs,
			r.StartNs, r.EndNs)
	}
	if r.Completed() {
		j.judgeAnswer(r)
	}
}

// judgeAnswer judges the tokens of a completed request: all requested tokens, at consistent times.
func (j *judge) judgeAnswer(r *Row) {
	asked := uint64(j.Script.OutputTokens)
	if !r.whole() {
		j.wrong("stage %d request %d completed, and lacks times or tokens", r.Stage, r.Index)
		return
	}
	if *r.OutputTokens != asked || r.TokenFrames != asked || len(r.ITLNs) != int(asked)-1 {
		j.wrong("stage %d request %d has %d tokens in %d frames with %d gaps, %d were asked for", r.Stage, r.Index,
			*r.OutputTokens, r.TokenFrames, len(r.ITLNs), asked)
	}
	sum := int64(0)
	for _, gap := range r.ITLNs {
		sum += gap
	}
	if *r.FirstTokenNs < r.StartNs || *r.LastTokenNs > r.EndNs || sum != *r.LastTokenNs-*r.FirstTokenNs {
		j.wrong("stage %d request %d: start %d, tokens from %d to %d, end %d ns, and gaps that sum up to %d", r.Stage,
			r.Index, r.StartNs, *r.FirstTokenNs, *r.LastTokenNs, r.EndNs, sum)
	}
}

// isAgent reports whether the script has an agent with a name.
func (j *judge) isAgent(name string) bool { return j.placeOf(name) >= 0 }
