package dataset

import (
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

// window puts the rows of a trace in the order of their times. Logs are often written when requests end, and so are out
// of order by as much as requests last; a window of windowBytes (about 250,000 rows without blocks) sorts them, and any
// small file, in bounded memory. A row that comes later still is refused by name: nothing is put where it does not
// belong.
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
	w.rows.push(t)
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
	t := w.rows.pop()
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

// timedHeap is a binary heap of rows: the earliest is the first, and of those of one time the one that came first.
type timedHeap []timed

// before reports whether row i goes out before row j.
func (h timedHeap) before(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}

// push adds a row.
func (h *timedHeap) push(t timed) {
	*h = append(*h, t)
	rows := *h
	for i := len(rows) - 1; i > 0 && rows.before(i, (i-1)/2); i = (i - 1) / 2 {
		rows[i], rows[(i-1)/2] = rows[(i-1)/2], rows[i]
	}
}

// pop takes the first row.
func (h *timedHeap) pop() timed {
	rows := *h
	first, last := rows[0], len(rows)-1
	rows[0], rows[last] = rows[last], timed{}
	rows = rows[:last]
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			break
		}
		if next+1 < last && rows.before(next+1, next) {
			next++
		}
		if !rows.before(next, i) {
			break
		}
		rows[i], rows[next] = rows[next], rows[i]
		i = next
	}
	*h = rows
	return first
}
