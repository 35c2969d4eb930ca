package workload

import (
	"errors"
	"fmt"
	"math"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// play is how the turns of a session follow one another.
type play struct {
	server      bool    // the history holds the server's answers
	scale       float64 // of the delays of rows
	mean        time.Duration
	exponential bool
	pauses      draw.Sequence
}

// newPlay reads the plan's settings. A nil p has the defaults.
func newPlay(p *spatev1.SessionPlay, c Config) (play, error) {
	x := play{mean: p.GetThinkTime().GetMean().AsDuration(), scale: 1, pauses: draw.New(c.Seed, "pauses")}
	if p != nil && p.DelayScale != nil {
		x.scale = p.GetDelayScale()
	}
	switch p.GetHistory() {
	case "", "server":
		x.server = true
	case "planned", "none":
	default:
		return play{}, fmt.Errorf("workload: history %q is not known: give server, planned or none", p.GetHistory())
	}
	switch d := p.GetThinkTime().GetDistribution(); d {
	case "", "constant":
	case "exponential":
		x.exponential = true
	default:
		return play{}, fmt.Errorf("workload: distribution %q of think_time is not known: give constant or exponential",
			d)
	}
	return x, nil
}

// checkForm returns an error if a history cannot be sent in the form that the target takes.
func (p play) checkForm(form Form) error {
	if p.server && form == TokenIDs {
		return errTokenHistory
	}
	return nil
}

// errTokenHistory is returned because servers answer with text, not with token ids.
var errTokenHistory = errors.New("workload: a history with the server's answers cannot be sent as token ids, " +
	"because servers answer with text: " +
	"set history to planned, the target's prompts to text, or its api to chat")

// pause returns the time between the previous answer and a turn. An exponential pause is -mean x ln(u), at most 36.8
// times the mean.
func (p play) pause(index uint64, turn int) time.Duration {
	switch {
	case turn == 0:
		return 0
	case p.exponential:
		return time.Duration(float64(p.mean) * -math.Log(p.pauses.Sub(index).Unit(uint64(turn))))
	default:
		return p.mean
	}
}

// answer writes the answer to an earlier turn into a transcript: the server's answer, or what planned writes. A turn
// without an answer gets an empty one, so that user and assistant alternate, as chat templates require.
func (p play) answer(t *transcript, r Request, turn int, planned func()) {
	t.begin(assistant)
	if p.server {
		t.answer(r.Answers[turn])
	} else {
		planned()
	}
	t.end()
}

// check returns an error for a request whose history cannot be written.
func (p play) check(r Request) error {
	switch {
	case !p.server:
		return nil
	case r.Form == TokenIDs:
		return errTokenHistory
	case len(r.Answers) < r.Turn:
		return fmt.Errorf("workload: turn %d of session %d needs the answers to the %d turns before it, "+
			"but %d were given", r.Turn, r.Index, r.Turn, len(r.Answers))
	default:
		return nil
	}
}
