package series

import (
	"fmt"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sweep measures one request at a time, then a saturated server, then evenly spaced rates between the two request
// throughputs. As in GuideLLM's sweeps, the last rate is the saturated throughput itself, and the synchronous rate is
// not measured again.
type sweep struct {
	common
	points     int
	saturation uint32
	done       int
	lowest     *float64 // throughput of one request at a time
	highest    *float64 // throughput of the saturated server
	verdict    string   // the worst of the stages
}

func newSweep(template *spatev1.LoadPoint) *sweep {
	asked := template.GetSweep()
	return &sweep{common: common{template: template}, points: int(asked.GetPoints()), saturation: asked.GetSaturation()}
}

// Next returns the next stage.
func (s *sweep) Next() (Step, bool) {
	step := Step{Number: uint32(s.done)}
	switch {
	case s.ended != "" || s.done >= 2+s.points:
		return Step{}, false
	case s.done == 0:
		step.Purpose, step.Value = Synchronous, 1
		step.Load = closedAt(s.template, 1)
	case s.done == 1:
		step.Purpose, step.Value = Saturated, float64(s.saturation)
		step.Load = closedAt(s.template, s.saturation)
	default:
		share := float64(s.done-1) / float64(s.points)
		step.Purpose, step.Value = Rate, loadpoint.Rounded(*s.lowest+(*s.highest-*s.lowest)*share, digits)
		step.Load = openAt(s.template, step.Value)
	}
	return step, true
}

// Take records a stage. After the second stage the rates are known.
func (s *sweep) Take(_ uint32, o Outcome) string {
	s.done++
	if rank(o.Verdict) > rank(s.verdict) {
		s.verdict = o.Verdict
	}
	switch s.done {
	case 1:
		s.lowest = s.known(o, "one request at a time")
		return ""
	case 2:
		s.highest = s.known(o, fmt.Sprintf("concurrency %d", s.saturation))
		return s.between()
	}
	return ""
}

// known returns the throughput of an outcome. It ends the sweep if the throughput is not known.
func (s *sweep) known(o Outcome, at string) *float64 {
	if o.Throughput == nil || *o.Throughput <= 0 {
		s.End("the request throughput with " + at + " is not known")
		return nil
	}
	return o.Throughput
}

// between returns which rates follow. It ends the sweep if there is no room for any.
func (s *sweep) between() string {
	if s.lowest == nil || s.highest == nil {
		return ""
	}
	low, high := rateWords(*s.lowest), rateWords(*s.highest)
	if *s.highest <= *s.lowest {
		s.End(fmt.Sprintf("concurrency %d completed %s, no more than one request at a time with %s: there is no "+
			"rate between",
			s.saturation, high, low))
		return ""
	}
	return fmt.Sprintf("%s one at a time, %s saturated: %d rates between follow", low, high, s.points)
}

// Record returns how the sweep ended.
func (s *sweep) Record() *spatev1.SeriesRecord {
	rec := &spatev1.SeriesRecord{Load: s.template, Stages: uint32(s.done), Verdict: s.verdict, Reason: s.ended,
		Complete: s.ended == "", Converged: s.ended == ""}
	switch {
	case s.ended != "":
		rec.Sentence = fmt.Sprintf("ended after %d of %d stages: %s", s.done, 2+s.points, s.ended)
	case s.highest != nil:
		rec.Sentence = fmt.Sprintf("%d stages from one request at a time to %s", s.done, rateWords(*s.highest))
	}
	return rec
}
