package dataset

import (
	"cmp"
	"math"
	"slices"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// call is one call that was recorded: a request to a model, or something around requests, such as an agent or a tool.
type call struct {
	// trace groups calls; id names the call in it, and parent the call around it. Empty: none.
	trace, id, parent string
	// session is what several traces may have in common. Empty: the trace is a session by itself.
	session    string
	start, end int64 // ns, by the recording's clock
	ended      bool  // the end is known; else end is the start
	untimed    bool  // the recording has no times
	row        int   // of the request; -1: the call is none
}

// callTree finds out which recorded requests waited for which, from when they started and ended and from what was
// around them: of two calls around which the same call was, the later one waited for the earlier one if it started
// after the earlier one's end. Requests of calls that overlap are branches.
type callTree struct {
	builder *sessionBuilder
	calls   []call
}

// recorded reads a recording of calls. parse returns the call of an item and, if it is a request, its row.
func (b *builder) recorded(c *spatev1.TraceContent, parse func(it item) (call, *linkedRow, error)) {
	s := b.sessions(false)
	s.named = true // no row waits for the one before it unless the tree says so
	t := &callTree{builder: s}
	played := c.GetSessions() != nil
	b.parse = func(it item) error {
		one, row, err := parse(it)
		if err != nil {
			return err
		}
		one.row = -1
		if row != nil {
			if one.untimed && played {
				return unusable("has no timestamp")
			}
			row.at, row.timed = one.start, !one.untimed
			if played {
				row.session = one.trace
			}
			if err := s.add(it.Number, *row); err != nil {
				return err
			}
			one.row = len(s.held) - 1
		}
		if played {
			s.bytes += 128 + len(one.id) + len(one.parent)
			t.calls = append(t.calls, one)
		}
		return nil
	}
	b.end = func() error {
		t.link()
		return s.end()
	}
}

// link makes each request wait for those that the recording shows it to have waited for.
func (t *callTree) link() {
	sessions := map[string]string{} // by trace
	for _, c := range t.calls {
		if sessions[c.trace] == "" {
			sessions[c.trace] = c.session
		}
	}
	known, first := map[[2]string]bool{}, map[string]int{}
	for _, c := range t.calls {
		known[[2]string{c.trace, c.id}] = c.id != ""
		if c.row < 0 {
			continue
		}
		session := cmp.Or(sessions[c.trace], c.trace)
		if other, more := first[session]; more {
			t.builder.join(c.row, other)
		} else {
			first[session] = c.row
		}
	}
	// Children by trace and parent. What has no parent in the recording is a child of its session.
	around := map[[2]string][]int{}
	var order []string
	for i, c := range t.calls {
		key := [2]string{c.trace, c.parent}
		if c.parent == "" || !known[key] || c.parent == c.id {
			session := cmp.Or(sessions[c.trace], c.trace)
			if key = [2]string{"", session}; around[key] == nil {
				order = append(order, session)
			}
		}
		around[key] = append(around[key], i)
	}
	for _, session := range order {
		t.visit(around, around[[2]string{"", session}], nil, 0)
	}
}

// maxDepth is how deep calls may be nested. What is deeper is not looked at: a recording may have a circle.
const maxDepth = 1000

// visit links the requests of calls that are children of one call, whose first requests wait for some rows. It returns
// the rows that the next call waits for, and the end of the latest call.
func (t *callTree) visit(around map[[2]string][]int, children, waits []int, depth int) (last []int, end int64) {
	slices.SortStableFunc(children, func(a, b int) int { return cmp.Compare(t.calls[a].start, t.calls[b].start) })
	type done struct {
		start, end int64
		rows       []int
	}
	var before []done
	// until returns the rows that something waits for that starts at an instant: those of calls that had ended, and
	// after whose end no other call started that had ended, too.
	until := func(at int64) (rows []int) {
		latest := int64(math.MinInt64)
		for _, p := range before {
			if p.end <= at {
				latest = max(latest, p.start)
			}
		}
		for _, p := range before {
			if p.end <= at && p.end >= latest {
				rows = append(rows, p.rows...)
			}
		}
		return rows
	}
	for _, child := range children {
		c := t.calls[child]
		own := until(c.start)
		if own == nil {
			own = waits
		}
		d := done{start: c.start, end: c.end}
		if c.row >= 0 {
			t.wait(c, own)
			d.rows = []int{c.row}
		} else if inner := around[[2]string{c.trace, c.id}]; c.id != "" && depth < maxDepth {
			var last int64
			d.rows, last = t.visit(around, inner, own, depth+1)
			d.end = max(d.end, last)
		}
		if len(d.rows) > 0 {
			before, end = append(before, d), max(end, d.end)
		}
	}
	return until(math.MaxInt64), end
}

// wait makes a request wait for rows, with the time from the last of their ends to its start as its delay. If an end is
// not known, the request has its own time.
func (t *callTree) wait(c call, others []int) {
	s, end, known := t.builder, int64(math.MinInt64), len(others) > 0
	for _, other := range others {
		s.wait(c.row, other)
		end, known = max(end, s.held[other].end), known && s.held[other].ended
	}
	h := &s.held[c.row]
	if h.end, h.ended = c.end, c.ended; known {
		h.links.delay, h.links.delayed = time.Duration(max(c.start-end, 0)), true
	}
}
