package dataset

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/workload/rows"
)

// linkedRow is a row of a trace that belongs to a session.
type linkedRow struct {
	// session is the conversation that the row belongs to, request its own name. Empty: none.
	session, request string
	// waits are the names of the rows that must have ended before the row starts.
	waits []string
	// parent is a name like those of waits, but no row needs to have it.
	parent string
	// at is the row's time by the trace's own clock, in nanoseconds, if it is timed. delay is the time after the rows
	// that it waits for, if it is delayed.
	at             int64
	delay          time.Duration
	timed, delayed bool
	// step has the row's lengths, and content its content.
	step    rows.Step
	content *rows.Row
}

// linksOf reads the members of a row that say how it belongs to others.
func linksOf(o object) (l linkedRow, err error) {
	if l.session, err = parseName("session_id", o.take("session_id")); err != nil {
		return l, err
	}
	if l.request, err = parseName("request_id", o.take("request_id", "chat_id")); err != nil {
		return l, err
	}
	if l.parent, err = parseName("parent_chat_id", o.take("parent_chat_id")); err != nil {
		return l, err
	}
	if waits := o.take("wait_for"); waits != nil {
		if l.waits, err = parseNames("wait_for", waits); err != nil {
			return l, err
		}
	}
	if err := l.addDelay("delay", o.take("delay", "delay_ms")); err != nil {
		return l, err
	}
	return l, l.addDelay("tool_wait_ms", o.take("tool_wait_ms"))
}

// maxDelay is the longest delay of a row.
const maxDelay = 366 * 24 * time.Hour

// addDelay adds a delay in milliseconds, if there is one.
func (l *linkedRow) addDelay(name string, value []byte) error {
	if value == nil {
		return nil
	}
	ns, err := parseTime(name, value, 1e6)
	switch {
	case err != nil:
		return err
	case ns < 0:
		return unusable("%s is %s: it must not be negative", name, value)
	case ns > maxDelay.Nanoseconds():
		return unusable("%s is %s: it must be at most %d, which is a year", name, value, maxDelay.Milliseconds())
	}
	l.delay, l.delayed = l.delay+time.Duration(ns), true
	return nil
}

// parseName reads a name, a string or a number. It returns "" if the value is absent.
func parseName(name string, value []byte) (string, error) {
	switch {
	case value == nil:
		return "", nil
	case value[0] == '"':
		return string(value[1 : len(value)-1]), nil
	case isNumber(string(value)):
		return string(value), nil
	}
	return "", unusable("%s is %s, not a string", name, typeOf(value))
}

// parseNames reads an array of names.
func parseNames(name string, value []byte) ([]string, error) {
	if value[0] != '[' {
		return nil, unusable("%s is %s, not an array", name, typeOf(value))
	}
	names := []string{} // an empty array also says what the row waits for
	for v := range values(value) {
		one, err := parseName(name, v)
		if err != nil {
			return nil, err
		}
		names = append(names, one)
	}
	return names, nil
}

const (
	// maxHeld is the memory for the rows of a trace whose sessions are played.
	maxHeld = 1 << 30
	// maxSteps is the maximum number of requests of a session.
	maxSteps = 10_000
)

// heldRow is a row whose session is not complete yet.
type heldRow struct {
	number  uint64
	links   linkedRow // without content and step
	after   []int     // rows that must end before
	end     int64     // of a recorded request, by the same clock as links.at
	ended   bool      // the end is known
	session int       // one of the rows of the row's session
	bad     bool
}

// sessionBuilder puts the rows of a trace together as sessions: rows that wait for one another, and rows of one
// conversation. Rows of one session may be far apart in the file.
type sessionBuilder struct {
	b         *builder
	histories bool // rows of text and lengths continue the history of their conversation
	limit     int

	held []heldRow
	// steps has the steps of all rows. Their Previous are numbers of rows.
	steps   rows.Row
	bytes   int
	byName  map[string]int
	last    map[string]int // latest row of each conversation
	sorted  []session
	started bool // some row has a time
	named   bool // some row names what it waits for
}

// session is a session that is complete: its rows in an order in which none comes before one that it waits for.
type session struct {
	rows  []int
	start int64
}

// linked reads a trace whose rows belong to sessions.
func (b *builder) linked(histories bool, parse func(text []byte) (linkedRow, error)) {
	s := b.sessions(histories)
	b.parse = func(it item) error {
		l, err := parse(it.Text)
		if err != nil {
			return err
		}
		return s.add(it.Number, l)
	}
	b.end = s.end
}

// sessions returns what puts the sessions of a trace together.
func (b *builder) sessions(histories bool) *sessionBuilder {
	return &sessionBuilder{b: b, histories: histories, limit: maxHeld, byName: map[string]int{}, last: map[string]int{}}
}

// add takes a row. It keeps none of the content's memory.
func (s *sessionBuilder) add(number uint64, l linkedRow) error {
	if first, used := s.byName[l.request]; used && l.request != "" {
		return unusable("has the request_id %q of %s %d", l.request, s.b.skipped.Unit, s.held[first].number)
	}
	n := len(s.held)
	previous, known := s.previous(l)
	var before *rows.Row
	if known {
		if err := s.steps.OpenStep(previous); err != nil {
			return err
		}
		l.step.Previous, before = uint32(previous+1), &s.steps
	}
	l.step.SetContent(l.content, before)
	l.step.Continues = known && s.histories && (l.step.Kind == rows.Text || l.step.Kind == rows.Lengths)
	if l.step.Continues {
		if s.steps.HasMessages() {
			return unusable("continues the messages of %s %d: give the whole messages here, too", s.b.skipped.Unit,
				s.held[previous].number)
		}
		s.b.flags |= rows.Continued
	}
	s.b.noteFields(l.content)
	s.steps.Steps = append(s.steps.Steps, l.step)
	s.bytes += 192 + l.step.Size() + len(l.session) + len(l.request) + 48*len(l.waits)
	l.content, l.step = nil, rows.Step{}
	s.held = append(s.held, heldRow{number: number, links: l, session: n})
	s.started, s.named = s.started || l.timed, s.named || l.waits != nil
	if l.request != "" {
		s.byName[l.request] = n
	}
	if l.session != "" {
		s.last[l.session] = n
	}
	if s.bytes > s.limit {
		return fmt.Errorf("the rows up to here take more than %d MiB of memory, because rows of one session may be anywhere: "+
			"split the trace into parts", s.limit>>20)
	}
	return nil
}

// previous returns the row before one in its conversation: the latest of its session_id, or else the first that it
// waits for.
func (s *sessionBuilder) previous(l linkedRow) (row int, known bool) {
	if l.session != "" {
		row, known = s.last[l.session]
		return row, known
	}
	for _, name := range append(l.waits, l.parent) {
		if row, known = s.byName[name]; known {
			return row, true
		}
	}
	return 0, false
}

// end puts the sessions together and adds them in the order of their times.
func (s *sessionBuilder) end() error {
	scale := s.b.times.scale(s.b.skipped)
	for n := range s.held {
		s.held[n].links.at *= scale
		s.link(n)
	}
	members := map[int][]int{}
	for n := range s.held {
		root := s.find(n)
		members[root] = append(members[root], n)
	}
	for n := range s.held {
		if own := members[n]; own != nil {
			s.order(own)
		}
	}
	slices.SortStableFunc(s.sorted, func(a, b session) int { return cmp.Compare(a.start, b.start) })
	if s.started {
		s.b.flags |= rows.HasTimes
	}
	for _, one := range s.sorted {
		if err := s.emit(one); err != nil {
			return err
		}
	}
	return nil
}

// link finds the rows that a row waits for: those that it names, and the one before it in its conversation, if it
// continues its history or no row of the trace names any.
func (s *sessionBuilder) link(n int) {
	h, step := &s.held[n], &s.steps.Steps[n]
	for _, name := range h.links.waits {
		other, known := s.byName[name]
		if !known {
			s.spoil(n, "waits for %q, but no usable row has this request_id", name)
			continue
		}
		s.wait(n, other)
	}
	if other, known := s.byName[h.links.parent]; known {
		s.wait(n, other)
	}
	if step.Previous == 0 {
		return
	}
	previous := int(step.Previous - 1)
	if step.Continues || !s.named {
		s.wait(n, previous)
	}
	s.join(n, previous) // its content is stored as what differs from the previous one
}

// wait makes a row wait for another, once.
func (s *sessionBuilder) wait(n, other int) {
	if h := &s.held[n]; !slices.Contains(h.after, other) {
		h.after = append(h.after, other)
		s.join(n, other)
	}
}

// spoil notes a row that cannot be used.
func (s *sessionBuilder) spoil(n int, format string, args ...any) {
	s.held[n].bad = true
	s.b.skipped.note(s.held[n].number, &unusableError{reason: fmt.Sprintf(format, args...)})
}

// join makes two rows belong to one session.
func (s *sessionBuilder) join(a, b int) {
	a, b = s.find(a), s.find(b)
	s.held[max(a, b)].session = min(a, b)
}

// find returns the first row of a row's session.
func (s *sessionBuilder) find(n int) int {
	for s.held[n].session != n {
		s.held[n].session = s.held[s.held[n].session].session
		n = s.held[n].session
	}
	return n
}

// order orders the rows of a session so that none comes before one that it waits for, and otherwise by time, a row
// without a time right behind what it waits for, and as in the file. If that cannot be, no row of the session is used.
func (s *sessionBuilder) order(own []int) {
	if bad := slices.IndexFunc(own, func(n int) bool { return s.held[n].bad }); bad >= 0 {
		s.drop(own, own[bad])
		return
	}
	waiting, children := map[int]int{}, map[int][]int{}
	when := map[int]int64{}
	ready := queue[int]{before: func(a, b int) bool {
		return cmp.Or(cmp.Compare(when[a], when[b]), cmp.Compare(a, b)) < 0
	}}
	for _, n := range own {
		waiting[n] = len(s.held[n].after)
		for _, other := range s.held[n].after {
			children[other] = append(children[other], n)
		}
		if l := s.held[n].links; l.timed {
			when[n] = l.at
		} else if waiting[n] == 0 {
			when[n] = math.MaxInt64
		}
		if waiting[n] == 0 {
			heap.Push(&ready, n)
		}
	}
	ordered := make([]int, 0, len(own))
	for ready.Len() > 0 {
		n, _ := heap.Pop(&ready).(int)
		ordered = append(ordered, n)
		for _, child := range children[n] {
			if !s.held[child].links.timed {
				when[child] = when[n]
			}
			if waiting[child]--; waiting[child] == 0 {
				heap.Push(&ready, child)
			}
		}
	}
	if len(ordered) < len(own) {
		s.circle(own, waiting)
		return
	}
	s.start(ordered)
}

// circle reports rows that wait for one another in a circle.
func (s *sessionBuilder) circle(own []int, waiting map[int]int) {
	stuck := func(n int) bool { return waiting[n] > 0 }
	seen, at := map[int]bool{}, own[slices.IndexFunc(own, stuck)]
	for !seen[at] { // each waits for a row that is stuck, too
		seen[at] = true
		at = s.held[at].after[slices.IndexFunc(s.held[at].after, stuck)]
	}
	var names []string
	for n := at; len(names) == 0 || n != at; n = s.held[n].after[slices.IndexFunc(s.held[n].after, stuck)] {
		names = append(names, fmt.Sprint(s.held[n].number))
	}
	s.spoil(at, "waits for itself, by way of %ss %s", s.b.skipped.Unit, strings.Join(append(names, names[0]), ", "))
	s.drop(own, at)
}

// drop notes the other rows of a session with an unusable row.
func (s *sessionBuilder) drop(own []int, bad int) {
	for _, n := range own {
		if !s.held[n].bad {
			s.spoil(n, "is of the same session as %s %d, which cannot be used", s.b.skipped.Unit, s.held[bad].number)
		}
	}
}

// start takes a session whose rows are in order. If any row of the trace has a time, its first row must have one.
func (s *sessionBuilder) start(ordered []int) {
	first := &s.held[ordered[0]].links
	switch {
	case len(ordered) > maxSteps:
		s.spoil(ordered[0], "starts a session of %d requests, more than %d", len(ordered), maxSteps)
		s.drop(ordered, ordered[0])
	case s.started && !first.timed:
		s.spoil(ordered[0], "is the first of its session and has no timestamp, as other rows have")
		s.drop(ordered, ordered[0])
	default:
		s.sorted = append(s.sorted, session{rows: ordered, start: first.at})
	}
}

// emit adds a session.
func (s *sessionBuilder) emit(one session) error {
	row := &s.b.row
	row.Reset()
	places := make(map[int]uint32, len(one.rows))
	for place, n := range one.rows {
		places[n] = uint32(place)
		h, step := &s.held[n], s.steps.Steps[n]
		if err := s.place(&step, n, places); err != nil {
			return err
		}
		for _, other := range h.after {
			step.After = append(step.After, places[other])
		}
		slices.Sort(step.After)
		switch l := h.links; {
		case place == 0:
		case l.delayed:
			step.Delay = l.delay
		case l.timed:
			step.At = max(time.Duration(l.at-one.start), 0)
		}
		row.Steps = append(row.Steps, step)
	}
	first := row.Steps[0]
	row.Kind, row.ISL, row.OSL, row.Shared = rows.Steps, first.ISL, first.OSL, first.Shared
	row.TurnCount = uint32(len(row.Steps))
	if row.At = time.Duration(one.start - s.sorted[0].start); row.At < 0 {
		return fmt.Errorf("%s %d is more than 292 years after the first: check the times", s.b.skipped.Unit,
			s.held[one.rows[0]].number)
	}
	return s.b.add(row)
}

// place sets the number, in its session, of the step before one in the conversation. A conversation whose rows are not
// played in the order of the file may have it later: the step's content is then stored whole.
func (s *sessionBuilder) place(step *rows.Step, n int, places map[int]uint32) error {
	if step.Previous == 0 {
		return nil
	}
	place, earlier := places[int(step.Previous-1)]
	if step.Previous = place + 1; earlier {
		return nil
	}
	step.Previous = 0
	if err := s.steps.OpenStep(n); err != nil {
		return err
	}
	step.SetContent(&s.steps, nil)
	return nil
}
