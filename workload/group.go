package workload

import (
	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/draw"
)

// grouper is a workload of which some prompts begin with what others begin with too.
type grouper interface {
	group(index uint64) (group uint64, grouped bool, err error)
}

// Group returns a number that an arrival's prompt has in common with all prompts that were made to begin alike: of its
// prefix group, or of its first block in a trace with blocks. Grouped is false if it was made to share nothing. An
// error: its row cannot be read.
func Group(w Workload, index uint64) (group uint64, grouped bool, err error) {
	g, ok := w.(grouper)
	if !ok {
		return 0, false, nil
	}
	return g.group(index)
}

func (w *random) group(index uint64) (group uint64, grouped bool, err error) { //nolint:unparam // a grouper's
	if w.prefixes == nil || w.busting.on {
		return 0, false, nil
	}
	group, grouped = w.prefixes.group(index)
	return group, grouped, nil
}

// blockGroups make groups of blocks whose numbers have gaps: those of rows with as many blocks each lie equally far
// apart, and would all fall to one of as many places.
var blockGroups = draw.New(0, "block")

func (w *trace) group(index uint64) (group uint64, grouped bool, err error) {
	if w.busting.on {
		return 0, false, nil
	}
	row := w.row()
	defer w.read.Put(row)
	if err := w.rows.Read(index%w.rows.Len(), row); err != nil {
		return 0, false, err
	}
	if row.Kind != dataset.Blocks || len(row.Blocks) == 0 {
		return 0, false, nil
	}
	return blockGroups.At(row.Blocks[0]), true, nil
}
