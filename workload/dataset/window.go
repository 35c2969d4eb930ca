package dataset

import (
	"container/heap"
	"fmt"
	"time"
)

// windowBytes is how much memory the rows take that are held to be sorted.
const windowBytes = 16 << 20

// timed is a row of a trace on its way into the file.
type timed struct {
	at       int64 // ns, by the trace's own clock
	number   uint64
	isl, osl uint32
	blocks   []uint64
}

// bytes is about what a row takes in memory.
func (t timed) bytes() int { return 64 + 8*cap(t.blocks) }

// window puts the rows of a trace in the order of their times. Logs are often written when requests end, and so are out of order by as much as
// requests last; a window of windowBytes (about 250,000 rows without blocks) sorts them, and any small file, in bounded memory. A row that
// comes later still is refused by name: nothing is put where it does not belong.
type window struct {
	rows     timedHeap
	held     int
	limit    int
	latest   int64 // largest time that came in
	first    int64
	last     timed // the last that went out
	begun    bool
	sorted   uint64
	unit     string
	emit     func(row timed, at time.Duration) error
	spare    [][]uint64
	received bool
}

// add takes a row, and hands on the earliest ones where it gets too many. The row's blocks are copied.
func (w *window) add(t timed) error {
	if w.received && t.at < w.latest {
		w.sorted++
	} else {
		w.latest = t.at
	}
	w.received = true
	if len(t.blocks) > 0 {
		t.blocks = append(w.room(), t.blocks...)
	}
	heap.Push(&w.rows, t)
	for w.held += t.bytes(); w.held > w.limit; {
		if err := w.pop(); err != nil {
			return err
		}
	}
	return nil
}

// room returns memory for blocks that went out.
func (w *window) room() []uint64 {
	if len(w.spare) == 0 {
		return nil
	}
	last := w.spare[len(w.spare)-1]
	w.spare = w.spare[:len(w.spare)-1]
	return last[:0]
}

// flush hands on all rows.
func (w *window) flush() error {
	for len(w.rows) > 0 {
		if err := w.pop(); err != nil {
			return err
		}
	}
	return nil
}

// pop hands on the earliest row.
func (w *window) pop() error {
	t, _ := heap.Pop(&w.rows).(timed)
	w.held -= t.bytes()
	if !w.begun {
		w.first, w.begun = t.at, true
	} else if t.at < w.last.at {
		return fmt.Errorf("%s %d is of %v before %s %d, which stands so far in front of it that they cannot be sorted here: "+
			"sort the file by its times", w.unit, t.number, time.Duration(w.last.at-t.at), w.unit, w.last.number)
	}
	w.last = timed{at: t.at, number: t.number}
	if t.at-w.first < 0 {
		return fmt.Errorf("%s %d is more than 292 years behind the first: check the times", w.unit, t.number)
	}
	err := w.emit(t, time.Duration(t.at-w.first))
	if t.blocks != nil && len(w.spare) < 1024 {
		w.spare = append(w.spare, t.blocks)
	}
	return err
}

// timedHeap is rows, the earliest first, and of those of one time the one that came first.
type timedHeap []timed

func (h timedHeap) Len() int { return len(h) }
func (h timedHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}
func (h timedHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push appends a row.
func (h *timedHeap) Push(v any) {
	if t, ok := v.(timed); ok {
		*h = append(*h, t)
	}
}

// Pop takes the last row away.
func (h *timedHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = timed{}
	*h = (*h)[:len(*h)-1]
	return last
}
