package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// sonnet makes prompts of whole lines of a text, in the manner of vLLM's sonnet dataset. First come the same lines in
// all prompts: as many of the text's first lines as fit into the prefix. Then come lines drawn at random, with
// repetition, until the next one does not fit into the ISL. No words fill a prompt up: it is shorter than the ISL by
// less than a line.
//
// The length of a line comes from the server's tokenizer, or from the tokenizer that the file was read with. Without
// either, lengths are estimates: prompts are still built from them, and the server's usage shows the error.
type sonnet struct {
	*file
	lines  []textLine
	prefix []textLine
	common uint32 // tokens of the prefix
	room   uint32 // tokens for the prefix and the drawn lines
	unique uint32 // tokens of the unique start that makes requests miss every cache
	feed   uint32 // tokens of the line feed behind the unique start, if the server counted the lines
	short  int    // index of the shortest line
	osl    uint32
	draws  draw.Sequence
}

// textLine is a line of the text.
type textLine struct {
	text   []byte // the inside of a JSON string
	tokens uint32
}

// newSonnet reads all lines into memory. They fit, because dataset.Build bounds the size of the text.
func newSonnet(s *spatev1.SonnetContent, c Config) (*sonnet, error) {
	f, err := newFile(c)
	if err != nil {
		return nil, err
	}
	w := &sonnet{file: f, room: contentTokens(s.GetIsl(), c.Template), osl: s.GetOsl(), draws: draw.New(c.Seed, "content")}
	w.unique = uint32(f.busting.uniqueTokens(f.words, Text, math.MaxUint64))
	w.room -= min(w.unique, w.room)
	if err := w.readLines(); err != nil {
		return nil, err
	}
	if err := w.takePrefix(s); err != nil {
		return nil, err
	}
	return w, w.setLengths(c.LineTokens, s.GetPrefix())
}

// setLengths replaces the lengths in the rows by the server's, if there are any. The server's lengths may be longer and
// leave no room for a line. A prompt has one line anyway, because by the file's lengths there is room.
func (w *sonnet) setLengths(lengths []uint32, prefix uint32) error {
	switch len(lengths) {
	case 0:
		return nil
	case len(w.lines):
	default:
		return fmt.Errorf("workload: there are %d lines, but %d lengths of lines", len(w.lines), len(lengths))
	}
	for i := range w.lines {
		w.lines[i].tokens = lengths[i]
	}
	if w.busting.on {
		w.feed = 1
		w.room -= min(w.feed, w.room)
	}
	w.takeLines(prefix)
	return nil
}

// readLines reads all lines.
func (w *sonnet) readLines() error {
	row := w.row()
	defer w.read.Put(row)
	for i := range w.rows.Len() {
		if err := w.rows.Read(i, row); err != nil {
			return err
		}
		w.lines = append(w.lines, textLine{text: slices.Clone(row.Content), tokens: lineTokens(row)})
	}
	return nil
}

// Line is one line of a sonnet's text.
type Line struct {
	// Text is the line with its line feed.
	Text string
	// Tokens is the length by the tokenizer that the file was read with. 0: there was none.
	Tokens uint32
}

// Lines returns the lines of a sonnet's text. It reads the whole file.
func Lines(f *rows.File) ([]Line, error) {
	lines := make([]Line, f.Len())
	var row rows.Row
	for i := range lines {
		if err := f.Read(uint64(i), &row); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(fmt.Appendf(nil, `"%s"`, row.Content), &lines[i].Text); err != nil {
			return nil, fmt.Errorf("workload: line %d: %w", i+1, err)
		}
		lines[i].Tokens = row.ISL
	}
	return lines, nil
}

// lineTokens returns the length of a line, or an estimate: English prose has about four tokens to three words.
func lineTokens(row *rows.Row) uint32 {
	if row.ISL > 0 {
		return row.ISL
	}
	words := len(bytes.Fields(row.Content))
	return uint32((4*words + 2) / 3)
}

// takePrefix takes the prefix. It returns an error if the prefix leaves no room for a line.
func (w *sonnet) takePrefix(s *spatev1.SonnetContent) error {
	w.takeLines(s.GetPrefix())
	if need := w.common + w.lines[w.short].tokens; need > max(w.room, s.GetIsl()-min(w.unique, s.GetIsl())) {
		return fmt.Errorf("workload: isl %d is too short, because the prefix and one line of the text take %d tokens: "+
			"raise isl or shorten the prefix", s.GetIsl(), need)
	}
	return nil
}

// takeLines takes as many first lines for the prefix as fit into a number of tokens.
func (w *sonnet) takeLines(tokens uint32) {
	w.short, w.common, w.prefix = shortest(w.lines), 0, nil
	for i, v := range w.lines {
		if w.common+v.tokens > tokens {
			return
		}
		w.common += v.tokens
		w.prefix = w.lines[:i+1]
	}
}

// shortest returns the index of the shortest line.
func shortest(lines []textLine) int {
	least := 0
	for i, v := range lines {
		if v.tokens < lines[least].tokens {
			least = i
		}
	}
	return least
}

// drawLines calls yield with each line behind the prefix: at least one.
func (w *sonnet) drawLines(index uint64, yield func(textLine)) {
	draws, left := w.draws.Sub(index), w.room-min(w.common, w.room)
	for j := uint64(0); ; j++ {
		v := w.lines[draws.Below(j, uint64(len(w.lines)))]
		switch {
		case v.tokens <= left:
		case j == 0:
			v = w.lines[w.short]
		default:
			return
		}
		yield(v)
		left -= min(v.tokens, left)
	}
}

// Spec returns the length of the prompt as the sum of the lengths of its lines.
func (w *sonnet) Spec(index uint64, _ int) (Spec, error) {
	s := Spec{ISL: w.template + w.unique + w.feed + w.common, OSL: w.osl, Turns: 1}
	w.drawLines(index, func(v textLine) { s.ISL += v.tokens })
	if index > 0 && !w.busting.on {
		s.Shared = w.common
	}
	return s, nil
}

// AppendPrompt appends the prefix's lines and the drawn ones.
func (w *sonnet) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	if err := writable(rows.Text, r.Form); err != nil {
		return dst, err
	}
	t := open(dst, r.Form, w.words)
	t.begin(user)
	if w.busting.start(&t, r.Index, math.MaxUint64) > 0 {
		t.dst = append(t.dst, `\n`...) // lines were counted behind a line feed
	}
	for _, v := range w.prefix {
		t.dst = append(t.dst, v.text...)
	}
	w.drawLines(r.Index, func(v textLine) { t.dst = append(t.dst, v.text...) })
	t.end()
	return t.close(), nil
}
