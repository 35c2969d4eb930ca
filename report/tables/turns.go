package tables

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/chance"
)

// targetRow is what a row of the table of targets is about: a stage, or the repeats of a load together.
type targetRow struct {
	*results.StageResult
	of []*results.StageResult // the stages that are taken together; one: the stage itself
}

// together returns the rows of stages of the same workload and load: one for the repeats of each target.
func together(r *results.Result, stages []*results.StageResult) (rows []targetRow) {
	for _, s := range stages {
		i := slices.IndexFunc(r.Repeats, func(p results.Repeats) bool { return slices.Contains(p.Stages, s.Index) })
		switch {
		case i < 0:
			rows = append(rows, targetRow{s, []*results.StageResult{s}})
		case r.Repeats[i].Stages[0] == s.Index:
			rows = append(rows, targetRow{r.Repeats[i].Stage(), []*results.StageResult{s}})
		default: // the repeats of a target follow one another
			rows[len(rows)-1].of = append(rows[len(rows)-1].of, s)
		}
	}
	return rows
}

// turns returns the turns of the row's stages and those of the baseline. It returns nil if they did not run in turns.
func (s *targetRow) turns(base *targetRow) *chance.Turns {
	if base == nil || base.Target == s.Target {
		return nil
	}
	var theirs []bool
	var at []float64
	var runs, rounds []int
	for _, row := range []*targetRow{base, s} {
		for _, of := range row.of {
			middle, known := of.Middle()
			if !known {
				return nil
			}
			theirs, at = append(theirs, row == s), append(at, middle)
			runs, rounds = append(runs, 0), append(rounds, int(of.Load.Repeat))
		}
	}
	if t := chance.NewTurns(theirs, at, runs, rounds); t != nil && t.InTurns {
		return t
	}
	return nil
}

// logarithms returns those of a number of the stages of both rows. It returns nil if one is not known.
func (s *targetRow) logarithms(base *targetRow, of func(*results.StageResult) *float64) (values []float64) {
	for _, stage := range slices.Concat(base.of, s.of) {
		v := of(stage)
		if v == nil || *v <= 0 {
			return nil
		}
		values = append(values, math.Log(*v))
	}
	return values
}

// ratio returns the ratio of the number at a place in targetValues to the baseline's. With turns it is without what
// changed steadily over time: by as much as the stages' own numbers differ less without it.
func (s *targetRow) ratio(r *results.Result, base *targetRow, turns *chance.Turns, i int) *float64 {
	of := func(stage *results.StageResult) *float64 { return targetNumbers(r, stage)[i] }
	rows := ratio(of(s.StageResult), of(base.StageResult))
	if turns == nil || rows == nil {
		return rows
	}
	if values := s.logarithms(base, of); values != nil {
		*rows *= math.Exp(floats.Dot(turns.Difference, values) - floats.Dot(turns.Raw, values))
	}
	return rows
}

// drift says how TPOT, or else E2E, changed over time in the stages of both rows. Empty: not known, or it may be
// chance.
func (s *targetRow) drift(base *targetRow, turns *chance.Turns) string {
	if turns == nil || turns.Freedom < 2 {
		return ""
	}
	what := "TPOT"
	values := s.logarithms(base, func(r *results.StageResult) *float64 { return mean(r.TPOT) })
	if values == nil {
		what, values = "E2E", s.logarithms(base, func(r *results.StageResult) *float64 { return mean(r.E2E) })
	}
	if values == nil {
		return ""
	}
	drift := floats.Dot(turns.Drift, values)
	if math.Abs(drift) <= turns.Between(values, turns.Drift).Margin(0.95) {
		return ""
	}
	how := "slowed"
	if drift < 0 {
		how = "got faster"
	}
	return fmt.Sprintf("%s: %s and %s both %s by %.2g %%/s (mean %s); the percentages are without that", s.Load.Words,
		base.Target, s.Target, how, 100*math.Abs(drift), what)
}

// oneAfterTheOther reports whether each of several targets ran all its stages at one time. Series of stages always do.
func oneAfterTheOther(r *results.Result) bool {
	changes, stages, last := 0, map[string]int{}, ""
	for _, s := range r.Ran() {
		if s.Probe != nil {
			continue
		}
		if s.Target != last && last != "" {
			changes++
		}
		stages[s.Target]++
		last = s.Target
	}
	return len(stages) > 1 && slices.Max(slices.Collect(maps.Values(stages))) > 1 && changes == len(stages)-1
}
