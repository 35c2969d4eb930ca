package workload

import (
	"fmt"
	"math"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// prompts sends the prompts or conversations of a file. With order "shuffled", arrivals take the rows in an order drawn
// from the seed, each row once. When all rows are taken, they are taken again in another order. With order "file",
// arrivals take the rows in the order of the file, again and again.
type prompts struct {
	*file
	shuffled bool
	orders   draw.Sequence // one permutation for each pass over the rows
	play     play
	texts    uint64 // rows of a request; 0: one, which is its prompt
}

// newPrompts checks the content.
func newPrompts(content *spatev1.FileContent, c Config) (*prompts, error) {
	f, err := newFile(c)
	if err != nil {
		return nil, err
	}
	w := &prompts{file: f, shuffled: content.GetOrder() != "file", orders: draw.New(c.Seed, "order"),
		texts: uint64(content.GetTexts())}
	if w.texts > 0 && (f.rows.Has(rows.Texts) || f.rows.Has(rows.Documents) || f.rows.Has(rows.Session)) {
		return nil, fmt.Errorf("workload: rows of %q cannot be the texts of a request: leave texts out", c.Workload.GetName())
	}
	if !f.rows.Has(rows.Session) {
		return w, nil
	}
	w.play = newPlay(content.GetSessions(), c)
	return w, w.play.checkForm(c.Form)
}

// rowOf returns the row of an arrival, and how many passes over all rows came before.
func (w *prompts) rowOf(index uint64) (row, before uint64) {
	n := w.rows.Len()
	row, before = index%n, index/n
	if w.shuffled {
		order := draw.NewPermutation(w.orders.Sub(before), n)
		row = order.At(row)
	}
	return row, before
}

// Spec returns the lengths of a row, or of a turn of its conversation.
//
// The ISL of text is known if the file was read with a tokenizer and the prompt holds nothing else. For later turns of
// a conversation the ISL is not known, because a chat template puts an unknown number of tokens between messages.
// Shared is what is known to have been sent before: the whole prompt if the row was taken before, or the history of the
// session.
func (w *prompts) Spec(index uint64, turn int) (Spec, error) {
	if w.texts == 0 {
		return w.specOf(index, turn)
	}
	all, known := Spec{Texts: uint32(w.texts), Turns: 1}, true
	for i := range w.texts {
		s, err := w.specOf(index*w.texts+i, 0)
		if err != nil {
			return Spec{}, err
		}
		known = known && s.ISL > 0
		all.OSL, all.ISL, all.Shared = s.OSL, all.ISL+s.ISL, all.Shared+s.Shared
	}
	if !known {
		all.ISL = 0
	}
	return all, nil
}

// specOf is Spec where each row is a request.
func (w *prompts) specOf(index uint64, turn int) (Spec, error) {
	row := w.row()
	defer w.read.Put(row)
	i, before := w.rowOf(index)
	if err := w.rows.ReadMetadata(i, row); err != nil {
		return Spec{}, err
	}
	s := Spec{OSL: row.OSL, Turns: int(row.TurnCount), Pause: w.play.pause(index, turn),
		Fields: row.Kind == rows.MessagesWithFields}
	if row.Kind == rows.Texts || row.Kind == rows.Documents {
		s.Texts, s.Turns = row.TurnCount, 1
	}
	if turn < 0 || turn >= s.Turns {
		return Spec{}, fmt.Errorf("workload: turn %d of row %d does not exist: the row has %d turns, counted from 0",
			turn, i, s.Turns)
	}
	if turn > 0 {
		if err := w.rows.Read(i, row); err != nil {
			return Spec{}, err
		}
		s.OSL, s.Shared = row.Turns[turn].OSL, w.history(row, turn)
		if w.play.server {
			s.Previous = turn
		}
		return s, nil
	}
	if s.ISL = w.contentISL(row); before > 0 && !w.busting.on {
		s.Shared = s.ISL
	}
	return s, nil
}

// history returns how many tokens the previous turn already had, if each answer has the length that was asked for. 0:
// not known.
func (w *prompts) history(row *rows.Row, turn int) (n uint32) {
	for i, t := range row.Turns[:turn] {
		if t.ISL == 0 {
			return 0
		}
		n += t.ISL
		if w.play.server || i < turn-1 {
			n += t.OSL
		}
	}
	return n
}

// AppendPrompt appends a row's content, behind a unique start if the request must miss every cache. A request of
// several rows has a list of them.
func (w *prompts) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	if w.texts == 0 {
		return w.appendRow(dst, r)
	}
	dst = append(dst, '[')
	for i := range w.texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		dst, err = w.appendRow(dst, Request{Index: r.Index*w.texts + i, Form: r.Form})
		if err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// appendRow is AppendPrompt where each row is a request.
func (w *prompts) appendRow(dst []byte, r Request) ([]byte, error) {
	row := w.row()
	defer w.read.Put(row)
	i, _ := w.rowOf(r.Index)
	if err := w.rows.Read(i, row); err != nil {
		return dst, err
	}
	switch row.Kind {
	case rows.TokenIDs:
		t := open(dst, TokenIDs, w.words)
		w.busting.start(&t, r.Index, math.MaxUint64)
		t.ids(row.IDs)
		return t.close(), nil
	case rows.Session:
		return w.appendSession(dst, row, r)
	case rows.Texts, rows.Documents:
		return w.appendTexts(dst, row, r), nil
	default:
		return w.appendContent(dst, row, r), nil
	}
}

// appendTexts appends a list of texts, each behind a unique start if the request must miss every cache. A query is a
// list in front of them, by which an API tells it from the documents.
func (w *prompts) appendTexts(dst []byte, row *rows.Row, r Request) []byte {
	dst = append(dst, '[')
	if row.Kind == rows.Documents {
		dst = append(append(append(dst, `["`...), row.Content...), `"],`...)
	}
	starts := w.busting.starts.Sub(r.Index)
	for i, text := range row.Turns {
		if i > 0 {
			dst = append(dst, ',')
		}
		t := open(dst, r.Form, w.words)
		t.tokens(starts.Sub(uint64(i)), 0, w.busting.uniqueTokens(w.words, r.Form, math.MaxUint64))
		t.text(text.User)
		dst = t.close()
	}
	return append(dst, ']')
}

// AppendFields implements Fielder.
func (w *prompts) AppendFields(body []byte, index uint64, turn int) ([]byte, error) {
	row, _ := w.rowOf(index)
	return w.appendFields(body, row, turn)
}

// appendSession appends a conversation up to the request's turn.
func (w *prompts) appendSession(dst []byte, row *rows.Row, r Request) ([]byte, error) {
	if err := w.play.check(r); err != nil {
		return dst, err
	}
	if r.Turn < 0 || r.Turn >= len(row.Turns) {
		return dst, fmt.Errorf("workload: turn %d of request %d does not exist: "+
			"its session has %d turns, counted from 0", r.Turn, r.Index, len(row.Turns))
	}
	t := open(dst, r.Form, w.words)
	if len(row.Content) > 0 {
		t.begin(system)
		w.busting.start(&t, r.Index, math.MaxUint64)
		t.text(row.Content)
		t.end()
	}
	for i := range r.Turn + 1 {
		if i > 0 {
			w.play.answer(&t, r, i-1, func() { t.text(row.Turns[i-1].Answer) })
		}
		t.begin(user)
		if i == 0 && len(row.Content) == 0 {
			w.busting.start(&t, r.Index, math.MaxUint64)
		}
		t.text(row.Turns[i].User)
		t.end()
	}
	return t.close(), nil
}
