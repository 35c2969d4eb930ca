package workload

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/workload/rows"
)

// openStep makes a row of steps hold one of them. It returns an error if there is no such step.
func openStep(row *rows.Row, number uint64, turn int) error {
	if turn < 0 || turn >= len(row.Steps) {
		return fmt.Errorf("workload: turn %d of row %d does not exist: the row has %d turns, counted from 0", turn, number,
			len(row.Steps))
	}
	return row.OpenStep(turn)
}

// stepSpec returns what a request of a session asks for. The row has its metadata.
//
// The ISL of a step that continues a history is the sum of all messages and answers, if all their lengths are known and
// a chat template adds nothing between them. Shared is then the history.
func (w *trace) stepSpec(row *rows.Row, index uint64, turn int) (Spec, error) {
	if err := w.rows.Read(index%w.rows.Len(), row); err != nil {
		return Spec{}, err
	}
	if err := openStep(row, index%w.rows.Len(), turn); err != nil {
		return Spec{}, err
	}
	step := row.Steps[turn]
	s := Spec{OSL: step.OSL, Shared: step.Shared, Turns: len(row.Steps), Branches: branches(row.Steps),
		Pause: w.delay(step.Delay) + w.play.pause(index, turn), NotBefore: w.delay(step.At),
		Fields: step.Kind == rows.MessagesWithFields}
	switch {
	case step.Continues:
		s.ISL, s.Shared = w.continued(row.Steps, turn)
		if w.play.server {
			s.Previous = int(step.Previous)
		}
	case step.Kind == rows.Text || row.HasMessages():
		if s.ISL = w.contentISL(row); index >= w.rows.Len() {
			s.Shared = s.ISL
		}
	default:
		s.ISL = serverISL(step.ISL, w.template)
	}
	if w.busting.on && !step.Continues {
		s.Shared = 0
	}
	return s, nil
}

// delay returns a delay of a row as it is played.
func (w *trace) delay(d time.Duration) time.Duration {
	return time.Duration(min(float64(d)*w.play.scale, math.MaxInt64/2))
}

// branches reports whether the steps of a session do anything else than follow one another.
func branches(steps []rows.Step) bool {
	for i, s := range steps {
		if i > 0 && (len(s.After) != 1 || int(s.After[0]) != i-1) {
			return true
		}
	}
	return false
}

// continued returns the length of the prompt of a step that continues its conversation, and how much of it an earlier
// request started with: all but the new message, and a planned answer before it. 0: not known.
func (w *trace) continued(steps []rows.Step, turn int) (isl, shared uint32) {
	history := uint64(0)
	for i := steps[turn].Previous; i > 0; i = earlier(steps, i) {
		if steps[i-1].ISL == 0 {
			return 0, 0
		}
		history += uint64(steps[i-1].ISL) + uint64(steps[i-1].OSL)
	}
	whole := history + uint64(steps[turn].ISL)
	if whole > math.MaxUint32 || steps[turn].ISL == 0 {
		return 0, 0
	}
	if shared = uint32(history); !w.play.server {
		shared -= steps[steps[turn].Previous-1].OSL
	}
	if w.template > 0 {
		return 0, shared // a template adds an unknown number of tokens between messages
	}
	return uint32(whole), shared
}

// earlier returns one more than the number of the step whose history step number i-1 continues. 0: none.
func earlier(steps []rows.Step, i uint32) uint32 {
	if !steps[i-1].Continues {
		return 0
	}
	return steps[i-1].Previous
}

// Waits implements Brancher.
func (w *trace) Waits(index uint64) ([][]int, error) {
	row := w.row()
	defer w.read.Put(row)
	if err := w.rows.Read(index%w.rows.Len(), row); err != nil {
		return nil, err
	}
	waits := make([][]int, len(row.Steps))
	for i, s := range row.Steps {
		for _, a := range s.After {
			waits[i] = append(waits[i], int(a))
		}
	}
	return waits, nil
}

// appendHistory appends a conversation up to a step that continues it.
func (w *trace) appendHistory(dst []byte, row *rows.Row, r Request) ([]byte, error) {
	var chain []int
	for i := uint32(r.Turn + 1); i > 0; i = earlier(row.Steps, i) {
		chain = append(chain, int(i-1))
	}
	slices.Reverse(chain)
	t := open(dst, r.Form, w.words)
	for place, turn := range chain {
		if err := openStep(row, r.Index%w.rows.Len(), turn); err != nil {
			return dst, err
		}
		w.appendMessage(&t, row, r, turn, place == 0)
		if turn == r.Turn {
			break
		}
		if w.play.server && len(r.Answers) <= turn {
			return dst, fmt.Errorf("workload: turn %d of session %d needs the answer to turn %d, but %d were given", r.Turn,
				r.Index, turn, len(r.Answers))
		}
		w.play.answer(&t, r, turn, func() { t.tokens(w.planned.Sub(r.Index).Sub(uint64(turn)), 0, uint64(row.OSL)) })
	}
	return t.close(), nil
}

// appendMessage appends what a user says in a step: its text, or as many tokens as it asks for. A conversation may
// begin with a prompt of blocks. The first message begins with a unique start if the session must miss every cache, and
// is shorter by what the server adds.
func (w *trace) appendMessage(t *transcript, row *rows.Row, r Request, turn int, first bool) {
	t.begin(user)
	length, from := uint64(row.ISL), uint64(0)
	if first {
		length = uint64(contentTokens(row.ISL, w.template))
		from = w.busting.start(t, r.Index, length)
	}
	switch row.Kind {
	case rows.Text:
		t.text(row.Content)
	case rows.Blocks:
		w.appendBlocks(t, row.Blocks, w.blocks.Sub(r.Index/w.rows.Len()), from, length)
	default:
		t.tokens(w.contents.Sub(r.Index).Sub(uint64(turn)), from, length-from)
	}
	t.end()
}
