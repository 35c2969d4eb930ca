package dataset

import (
	"bytes"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/workload/rows"
)

// sorterBytes is the memory for rows that are held for sorting.
const sorterBytes = 16 << 20

// timedRow is a row of a trace before it is written to the file.
type timedRow struct {
	at       int64 // ns, by the trace's own clock
	untimed  bool  // the row has no time
	number   uint64
	isl, osl uint32
	kind     rows.Kind
	blocks   []uint64
	prompt   *prompt // nil: the row has only lengths
}

// prompt is what a row of a trace has to send.
type prompt struct {
	content, fields []byte
	insert          int
}

// bytes returns the approximate memory of a row.
func (t timedRow) bytes() int {
	n := 72 + 8*cap(t.blocks)
	if t.prompt != nil {
		n += 56 + cap(t.prompt.content) + cap(t.prompt.fields)
	}
	return n
}

// timeSorter sorts the rows of a trace by time. Logs are often written when requests end, and are then out of order by
// as much as requests last. A sorter of sorterBytes (about 230,000 rows of lengths) sorts them, and any small file,
// in bounded memory. A row that comes even later is an error that names the row: no row is put in the wrong place.
type timeSorter struct {
	rows    queue[*timedRow]
	held    int
	limit   int
	latest  int64 // largest time received
	first   int64
	last    timedRow // the last row emitted
	started bool
	sorted  uint64
	unit    string
	emit    func(row timedRow, at time.Duration) error
}

// newTimeSorter returns a sorter that holds rows of so many bytes.
func newTimeSorter(limit int, unit string) *timeSorter {
	earlier := func(a, b *timedRow) bool {
		return a.at < b.at || a.at == b.at && a.number < b.number // rows of equal time keep their order in the file
	}
	return &timeSorter{limit: limit, unit: unit, latest: math.MinInt64, rows: queue[*timedRow]{before: earlier}}
}

// add takes a row, and emits the earliest rows while more than limit bytes are held. It copies the row's blocks and
// content.
func (s *timeSorter) add(t timedRow) error {
	if t.at < s.latest {
		s.sorted++
	}
	s.latest = max(s.latest, t.at)
	t.blocks = slices.Clone(t.blocks)
	if p := t.prompt; p != nil {
		t.prompt = &prompt{content: bytes.Clone(p.content), fields: bytes.Clone(p.fields), insert: p.insert}
	}
	heap.Push(&s.rows, &t)
	for s.held += t.bytes(); s.held > s.limit; {
		if err := s.pop(); err != nil {
			return err
		}
	}
	return nil
}

// flush emits all rows.
func (s *timeSorter) flush() error {
	for s.rows.Len() > 0 {
		if err := s.pop(); err != nil {
			return err
		}
	}
	return nil
}

// pop emits the earliest row.
func (s *timeSorter) pop() error {
	t, _ := heap.Pop(&s.rows).(*timedRow)
	s.held -= t.bytes()
	if !s.started {
		s.first, s.started = t.at, true
	} else if t.at < s.last.at {
		return fmt.Errorf("%s %d is %v earlier than %s %d, which comes too far before it in the file to be sorted: "+
			"sort the file by time", s.unit, t.number, time.Duration(s.last.at-t.at), s.unit, s.last.number)
	}
	s.last = timedRow{at: t.at, number: t.number}
	if t.at-s.first < 0 {
		return fmt.Errorf("%s %d is more than 292 years after the first: check the times", s.unit, t.number)
	}
	return s.emit(*t, time.Duration(t.at-s.first))
}

// queue is a heap: the item that comes before all others is its first.
type queue[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (q *queue[T]) Len() int           { return len(q.items) }
func (q *queue[T]) Swap(i, j int)      { q.items[i], q.items[j] = q.items[j], q.items[i] }
func (q *queue[T]) Less(i, j int) bool { return q.before(q.items[i], q.items[j]) }

// Push implements heap.Interface.
func (q *queue[T]) Push(item any) {
	typed, _ := item.(T)
	q.items = append(q.items, typed)
}

// Pop implements heap.Interface.
func (q *queue[T]) Pop() any {
	last := len(q.items) - 1
	item := q.items[last]
	clear(q.items[last:])
	q.items = q.items[:last]
	return item
}

// timeUnit finds out whether times that should be milliseconds are seconds: with fractions, and so close that there
// would be more requests in a second than any trace of a language model has.
type timeUnit struct {
	first, last int64
	times       int64
	fractions   bool
	factor      int64 // 0: not decided yet; 1: it is as the form says
}

// mostPerSecond is the highest rate of a trace in milliseconds with fractions.
const mostPerSecond = 500

// add takes a time in nanoseconds, by the form's unit.
func (u *timeUnit) add(at int64, fraction bool) {
	if u.times == 0 {
		u.first, u.last = at, at
	}
	u.first, u.last = min(u.first, at), max(u.last, at)
	u.times++
	u.fractions = u.fractions || fraction
}

// scale returns by what times are multiplied, by what the times until its first call show.
func (u *timeUnit) scale(s *Skipped) int64 {
	const least, toSeconds = 3, 1000
	if u.factor != 0 {
		return u.factor
	}
	u.factor = 1
	span := time.Duration(u.last - u.first).Seconds()
	if u.fractions && u.times >= least && span > 0 && float64(u.times-1)/span > mostPerSecond {
		u.factor, s.Seconds = toSeconds, true
	}
	return u.factor
}
