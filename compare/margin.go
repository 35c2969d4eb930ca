package compare

import (
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/chance"
)

// Margin returns half the width of the 95 % confidence interval of a number of a stage, relative to the number, by how
// much the stage varies over its time. Nil: the run has no request rows, or the stage is too short. The error is that
// of reading requests.
func (r *Run) Margin(index uint32, m *Metric) (*float64, error) {
	s := results.StageAt(r.Result.Stages, index)
	if s == nil || m.value(s) == nil {
		return nil, nil //nolint:nilnil // nil is the answer: it is not known
	}
	of, err := newSeries(&stage{run: r, result: s})
	if of == nil || err != nil {
		return nil, err
	}
	moved := m.series(of, *m.value(s))
	if moved == nil {
		return nil, nil //nolint:nilnil // as above
	}
	spread, ok := chance.Series(moved, of.residence)
	if !ok {
		return nil, nil //nolint:nilnil // as above
	}
	return new(spread.Margin(confidence)), nil
}
