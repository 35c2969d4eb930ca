package executor

import (
	"slices"

	"github.com/spate-load/spate/clock"
)

// play sends the prepared request, and then the later turns of its session, one after another. It blocks until the last
// response has ended. A session continues beyond the schedule's end. Only a failed turn, a stop or the drain timeout
// cuts it off.
func (w *worker) play(scheduled clock.Instant) {
	turns := w.ask.Turns
	w.load.arrivalStarted(&w.request)
	w.send(scheduled)
	for turn := 1; turn < turns; turn++ {
		next, ok := w.nextTurn(turn)
		if !ok {
			w.countUnsentTurns(turns - turn)
			break
		}
		w.send(next)
	}
	w.load.arrivalEnded(&w.request, w.observation.End)
}

// nextTurn prepares a turn and waits for its time, the pause after the previous turn. It reports whether the turn must
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
	w.load.expectTurn(scheduled)
	return scheduled, w.wait(w.load.starting, scheduled) && w.load.mayStart()
}

// keepAnswer appends the answer to the history, in memory that earlier sessions used.
func (w *worker) keepAnswer() {
	if !w.load.KeepsAnswers {
		return
	}
	n := len(w.answers)
	w.answers = slices.Grow(w.answers, 1)[:n+1]
	w.answers[n] = append(w.answers[n][:0], w.observation.Answer...)
}

// countUnsentTurns counts turns that are not sent. After a failed turn the history would be wrong; otherwise the end of
// the load cut the turns off.
func (w *worker) countUnsentTurns(turns int) {
	switch {
	case w.request.Unmeasured:
	case w.observation.Err != nil:
		w.load.orphaned.Add(uint64(turns))
	default:
		w.load.cutOff.Add(uint64(turns))
	}
}
