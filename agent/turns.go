package agent

import (
	"slices"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// play sends the prepared request, and behind it the later turns of its session, one after another. It blocks until the
// last response has ended. A session that was begun goes on beyond the schedule's end; only a turn that fails, a stop
// and the drain timeout cut it off.
func (w *worker) play(scheduled clock.Instant) {
	turns := w.ask.Turns
	w.load.begun(&w.request)
	w.send(scheduled)
	for turn := 1; turn < turns; turn++ {
		next, ok := w.nextTurn(turn)
		if !ok {
			w.leave(turns - turn)
			break
		}
		w.send(next)
	}
	w.load.played(&w.request, w.observation.End)
}

// nextTurn prepares a turn and waits for its time, the pause after the turn before. It reports whether the turn is to
// be sent.
func (w *worker) nextTurn(turn int) (scheduled clock.Instant, ok bool) {
	o := &w.observation
	if o.Err != nil || o.Cancelled {
		return 0, false
	}
	w.keepAnswer()
	if !w.prepareTurn(turn) {
		return 0, false
	}
	scheduled = o.End.Add(w.ask.Pause)
	w.load.expect(scheduled)
	return scheduled, w.wait(w.load.starting, scheduled) && w.load.mayStart()
}

// keepAnswer copies the answer to the history, into memory of sessions before.
func (w *worker) keepAnswer() {
	if !w.load.keepsAnswers {
		return
	}
	n := len(w.answers)
	w.answers = slices.Grow(w.answers, 1)[:n+1]
	w.answers[n] = append(w.answers[n][:0], w.observation.Answer...)
}

// leave counts turns that are not sent: behind a turn that failed the history would be wrong; else the end of the load
// cut them off.
func (w *worker) leave(turns int) {
	switch {
	case w.request.Unmeasured:
	case w.observation.Err != nil:
		w.load.orphaned.Add(uint64(turns))
	default:
		w.load.cutOff.Add(uint64(turns))
	}
}

// sessionPlay is how a workload's sessions are played, if it has any.
func sessionPlay(w *spatev1.Workload) (play *spatev1.SessionPlay, sessions bool) {
	switch c := w.GetContent().(type) {
	case *spatev1.Workload_Sessions:
		return c.Sessions.GetPlay(), true
	case *spatev1.Workload_Sharegpt:
		return c.Sharegpt.GetSessions(), c.Sharegpt.GetSessions() != nil
	case *spatev1.Workload_Jsonl:
		return c.Jsonl.GetSessions(), c.Jsonl.GetSessions() != nil
	default:
		return nil, false
	}
}
