package workload

import (
	"fmt"
	"math"
	"sync"

	"github.com/spate-load/spate/workload/rows"
)

// file is the common part of the workloads that take their requests from rows.
type file struct {
	rows     *rows.File
	words    *vocabulary
	template uint32
	busting  cacheBusting
	read     sync.Pool // of *rows.Row
}

// newFile checks that the rows are present, belong to the workload, and can be written in the target's form.
func newFile(c Config) (*file, error) {
	switch {
	case c.Rows == nil:
		return nil, fmt.Errorf("workload: %q takes its requests from a file, but has no rows", c.Workload.GetName())
	case !c.Rows.BuiltFor(c.Workload):
		return nil, fmt.Errorf("workload: the rows of %q were built for another kind of file: build them again",
			c.Workload.GetName())
	}
	if err := Writable(c.Rows, c.Form); err != nil {
		return nil, err
	}
	words, b, err := newBusting(c)
	if err != nil {
		return nil, err
	}
	return &file{
		rows: c.Rows, words: words, template: c.Template, busting: b,
		read: sync.Pool{New: func() any { return new(rows.Row) }},
	}, nil
}

// Writable returns an error if rows cannot be written in the form in which a target takes prompts.
func Writable(f *rows.File, form Form) error {
	for _, kind := range [...]rows.Kind{
		rows.Text, rows.Messages, rows.MessagesWithFields, rows.TokenIDs, rows.Session, rows.Texts, rows.Documents,
	} {
		if !f.Has(kind) {
			continue
		}
		if err := writable(kind, form); err != nil {
			return err
		}
	}
	return nil
}

// writable returns an error if rows of a kind cannot be written in a form: text cannot become token ids, nor token ids
// text, without the model's tokenizer.
func writable(kind rows.Kind, form Form) error {
	switch {
	case kind == rows.TokenIDs && form == Text:
		return fmt.Errorf("workload: rows of %v cannot be sent as text: set the target's `prompts: token_ids`", kind)
	case kind == rows.TokenIDs && form == Messages:
		return fmt.Errorf("workload: rows of %v cannot be sent to a chat API: set the target's `api: completions`",
			kind)
	case (kind == rows.Messages || kind == rows.MessagesWithFields) && form != Messages:
		return fmt.Errorf("workload: rows of %v can only be sent to a chat API: set the target's `api: chat`", kind)
	case kind == rows.Texts && form != Text:
		return fmt.Errorf("workload: rows of %v can only be sent as text to embeddings, rerank or score", kind)
	case kind == rows.Documents && form != Text:
		return fmt.Errorf("workload: rows of %v can only be sent to rerank or score", kind)
	case (kind == rows.Text || kind == rows.Session) && form == TokenIDs:
		return fmt.Errorf("workload: rows of %v cannot be sent as token ids: set the target's `prompts: text`", kind)
	}
	return nil
}

// row returns a row from the pool. The caller puts it back.
func (f *file) row() *rows.Row {
	row, _ := f.read.Get().(*rows.Row)
	return row
}

// contentISL returns the length of a row's first prompt, or of all its texts, or 0 if it is not known. Words in front
// of a text may change how the text is split into tokens.
func (f *file) contentISL(row *rows.Row) uint32 {
	if row.ISL == 0 || f.busting.on && row.Kind != rows.TokenIDs {
		return 0
	}
	prompts := uint32(1)
	if row.Kind == rows.Texts {
		prompts = row.TurnCount // Each is in the template.
	}
	return row.ISL + prompts*f.template + uint32(f.busting.uniqueTokens(f.words, TokenIDs, math.MaxUint64))
}

// appendContent appends a row's text or messages, behind a unique start if the request must miss every cache.
func (f *file) appendContent(dst []byte, row *rows.Row, r Request) []byte {
	if row.HasMessages() {
		return f.appendMessages(dst, row, r)
	}
	t := open(dst, r.Form, f.words)
	t.begin(user)
	f.busting.start(&t, r.Index, math.MaxUint64)
	t.text(row.Content)
	t.end()
	return t.close()
}

// appendMessages appends the messages as they are, with the unique start in front of their first text.
func (f *file) appendMessages(dst []byte, row *rows.Row, r Request) []byte {
	if !f.busting.on {
		return append(dst, row.Content...)
	}
	dst = append(dst, row.Content[:row.Insert]...)
	unique := f.busting.uniqueTokens(f.words, Text, math.MaxUint64)
	dst = f.words.append(dst, Text, f.busting.starts.Sub(r.Index), 0, unique, true)
	dst = append(dst, ' ')
	return append(dst, row.Content[row.Insert:]...)
}

// appendFields appends the fields of the row with this number, or of one of its steps, to a body, which is a JSON
// object.
func (f *file) appendFields(body []byte, number uint64, turn int) ([]byte, error) {
	row := f.row()
	defer f.read.Put(row)
	if err := f.rows.Read(number, row); err != nil {
		return body, err
	}
	if row.Kind == rows.Steps {
		if err := openStep(row, number, turn); err != nil {
			return body, err
		}
	}
	body = append(append(body[:len(body)-1], ','), row.Fields...)
	return append(body, '}'), nil
}

// Close closes the rows.
func (f *file) Close() error { return f.rows.Close() }
