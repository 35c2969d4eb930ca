package workload

import (
	"bytes"
	"fmt"
	"time"
)

// TraceTimes gives the times of a trace's rows, as schedule.Times does.
type TraceTimes interface {
	// Len returns the number of rows.
	Len() uint64
	// At returns the time of row i since the trace's start, and false if the row has no time or cannot be read.
	At(i uint64) (time.Duration, bool)
}

// tracesBlock is how many arrivals lie between two for which the earlier arrivals of each part are known.
const tracesBlock = 1024

// Traces is the order in which several traces are replayed at once: by time, and at one time in the order of the
// traces. Together they are a trace. A Traces is immutable and may be used concurrently. It takes a byte for each row.
type Traces struct {
	traces []TraceTimes
	parts  []byte   // by arrival
	before []uint64 // by block and part: the part's arrivals before the block
}

// NewTraces returns the order of the rows of traces, of which there are at most 256. It reads all times. It returns an
// error if one cannot be read.
func NewTraces(traces []TraceTimes) (*Traces, error) {
	t := &Traces{traces: traces}
	next, at := make([]uint64, len(traces)), make([]time.Duration, len(traces))
	read := func(part int) error {
		var ok bool
		if at[part], ok = traces[part].At(next[part]); !ok {
			return fmt.Errorf("mix: row %d of the trace of part %d has no readable time", next[part], part+1)
		}
		return nil
	}
	for part := range traces {
		if err := read(part); err != nil {
			return nil, err
		}
	}
	for {
		first := -1
		for part, trace := range traces {
			if next[part] < trace.Len() && (first < 0 || at[part] < at[first]) {
				first = part
			}
		}
		if first < 0 {
			return t, nil
		}
		if len(t.parts)%tracesBlock == 0 {
			t.before = append(t.before, next...)
		}
		t.parts = append(t.parts, byte(first))
		if next[first]++; next[first] < traces[first].Len() {
			if err := read(first); err != nil {
				return nil, err
			}
		}
	}
}

// Of returns the trace that an arrival belongs to, and the number of its row. Behind the last row all traces start
// again, and numbers continue.
func (t *Traces) Of(index uint64) (part int, number uint64) {
	pass, i := index/t.Len(), index%t.Len()
	owner := t.parts[i]
	block := i / tracesBlock
	part = int(owner)
	number = t.before[block*uint64(len(t.traces))+uint64(part)] +
		uint64(bytes.Count(t.parts[block*tracesBlock:i], []byte{owner}))
	return part, number + pass*t.traces[part].Len()
}

// Len implements TraceTimes.
func (t *Traces) Len() uint64 { return uint64(len(t.parts)) }

// At implements TraceTimes.
func (t *Traces) At(i uint64) (time.Duration, bool) {
	if i >= t.Len() {
		return 0, false
	}
	part, row := t.Of(i)
	return t.traces[part].At(row)
}
