package coordinator

import (
	"slices"
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Bounds of an event log: what a run of many stages and hours may keep in memory.
const (
	maxProgress = 512
	maxNotices  = 1024
)

// eventLog holds a run's events for any number of followers, from the begin. Its size is bounded: old progress is thinned out,
// and notices beyond a number are left to the coordinator's own log. It is safe for concurrent use.
type eventLog struct {
	mu       sync.Mutex
	events   []numbered
	last     uint64 // number of the newest event
	progress int
	notices  int
	ended    bool
	more     chan struct{} // closed and replaced at each event
}

// numbered is an event with its place among all there ever were, so that a follower finds its place after a thinning.
type numbered struct {
	number uint64
	event  *spatev1.RunEvent
}

func newEventLog() *eventLog { return &eventLog{more: make(chan struct{})} }

// add appends an event, or refuses it: a notice too many. After the event of the run's end nothing is added.
func (l *eventLog) add(e *spatev1.RunEvent) (added bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || !l.admit(e) {
		return false
	}
	l.last++
	l.events = append(l.events, numbered{l.last, e})
	l.ended = e.GetRunEnded() != nil
	close(l.more)
	l.more = make(chan struct{})
	return true
}

// admit makes room for an event, or refuses it.
func (l *eventLog) admit(e *spatev1.RunEvent) bool {
	switch {
	case e.GetStageProgress() != nil:
		if l.progress == maxProgress {
			l.thin()
		}
		l.progress++
	case e.GetNotice() != nil:
		if l.notices == maxNotices {
			return false
		}
		if l.notices++; l.notices == maxNotices {
			e.GetNotice().Text += " (further notices are in the coordinator's log only)"
		}
	}
	return true
}

// thin drops every second progress event.
func (l *eventLog) thin() {
	seen := 0
	l.events = slices.DeleteFunc(l.events, func(n numbered) bool {
		if n.event.GetStageProgress() == nil {
			return false
		}
		seen++
		return seen%2 == 1
	})
	l.progress -= (seen + 1) / 2
}

// after returns the events since a number, the number of the last of them, whether the log is at its end then, and a channel that
// is closed when there is more.
func (l *eventLog) after(number uint64) (events []*spatev1.RunEvent, last uint64, ended bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.events, number+1, func(n numbered, want uint64) int {
		return int(int64(n.number) - int64(want))
	})
	for _, n := range l.events[i:] {
		events = append(events, n.event)
	}
	return events, l.last, l.ended, l.more
}
