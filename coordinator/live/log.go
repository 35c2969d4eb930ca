package live

import (
	"cmp"
	"slices"
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Bounds of an event log, so that a run of many stages and hours does not fill the memory.
const (
	maxProgress = 512
	maxNotices  = 1024
	maxWindows  = 600
)

// EventLog holds a run's events from its start, for any number of followers. Its size is bounded: progress events are
// thinned out, windows are kept up to maxWindows, and notices beyond maxNotices are only in the coordinator's own log.
// It is safe for concurrent use.
type EventLog struct {
	mu       sync.Mutex
	events   []*spatev1.FollowRunResponse
	last     uint64 // number given last; its event may still have to be appended
	progress int
	windows  int
	notices  int
	ended    bool
	more     chan struct{} // closed and replaced with each event
}

// NewEventLog starts a log with events that are already known. New numbers start after the highest known number and
// after beyond.
func NewEventLog(known []*spatev1.FollowRunResponse, beyond uint64) *EventLog {
	l := &EventLog{more: make(chan struct{}), events: known, last: beyond}
	for _, e := range known {
		l.last = max(l.last, e.GetNumber())
		l.ended = l.ended || e.GetEvent().GetRunEnded() != nil
		if e.GetEvent().GetNotice() != nil {
			l.notices++
		}
	}
	return l
}

// Number gives an event its number, by which followers resume. It refuses notices beyond maxNotices, and all events
// after the run's end: it then returns false. The caller must append events in the order in which they were numbered.
func (l *EventLog) Number(e *spatev1.RunEvent) (numbered *spatev1.FollowRunResponse, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || !l.admit(e) {
		return nil, false
	}
	l.last++
	return &spatev1.FollowRunResponse{Event: e, Number: l.last}, true
}

// Append adds a numbered event and wakes the followers.
func (l *EventLog) Append(n *spatev1.FollowRunResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, n)
	l.ended = l.ended || n.GetEvent().GetRunEnded() != nil
	close(l.more)
	l.more = make(chan struct{})
}

// admit makes room for an event and reports whether there is any.
func (l *EventLog) admit(e *spatev1.RunEvent) bool {
	switch {
	case e.GetStageProgress() != nil:
		if l.progress == maxProgress {
			l.thin()
		}
		l.progress++
	case e.GetStageWindow() != nil:
		if l.windows++; l.windows > maxWindows+maxWindows/4 {
			l.forget(maxWindows / 4)
		}
	case e.GetNotice() != nil:
		if l.notices >= maxNotices {
			return false
		}
		if l.notices++; l.notices >= maxNotices {
			e.GetNotice().Text += " (further notices are in the coordinator's log only)"
		}
	}
	return true
}

// thin drops every second progress event.
func (l *EventLog) thin() {
	seen := 0
	l.events = slices.DeleteFunc(l.events, func(n *spatev1.FollowRunResponse) bool {
		if n.GetEvent().GetStageProgress() == nil {
			return false
		}
		seen++
		return seen%2 == 1
	})
	l.progress -= (seen + 1) / 2
}

// forget drops the oldest windows.
func (l *EventLog) forget(count int) {
	l.windows -= count
	l.events = slices.DeleteFunc(l.events, func(n *spatev1.FollowRunResponse) bool {
		if count == 0 || n.GetEvent().GetStageWindow() == nil {
			return false
		}
		count--
		return true
	})
}

// After returns the events after a number, whether the run's end is among the log's events, and a channel that is
// closed when there are more events. Callers must not change the events.
func (l *EventLog) After(number uint64) (events []*spatev1.FollowRunResponse, ended bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearchFunc(l.events, number, func(n *spatev1.FollowRunResponse, want uint64) int {
		return cmp.Compare(n.GetNumber(), want)
	})
	if found {
		i++
	}
	return slices.Clone(l.events[i:]), l.ended, l.more
}
