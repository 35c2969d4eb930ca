package workload

import (
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// grouper is a workload in which some prompts start alike.
type grouper interface {
	group(index uint64) (group uint64, grouped bool, err error)
}

// Group returns a number that is common to all prompts that were made to start like the prompt of this arrival: its
// prefix group, or its first block in a trace with blocks. Grouped is false if the prompt was made to share nothing.
// Group returns an error if the arrival's row cannot be read.
func Group(w Workload, index uint64) (group uint64, grouped bool, err error) {
	g, ok := w.(grouper)
	if !ok {
		return 0, false, nil
	}
	return g.group(index)
}

func (w *random) group(index uint64) (group uint64, grouped bool, err error) { //nolint:unparam // a grouper's
	if w.prefixes == nil {
		return 0, false, nil
	}
	group, grouped = w.prefixes.group(index)
	return group, grouped, nil
}

// blockGroups hashes block ids to groups. Block ids have gaps: if all rows have the same number of blocks, their first
// ids are equally far apart, and id modulo that number would be the same for all.
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
	if row.Kind != rows.Blocks || len(row.Blocks) == 0 {
		return 0, false, nil
	}
	return blockGroups.At(row.Blocks[0]), true, nil
}
