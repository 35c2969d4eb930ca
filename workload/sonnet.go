package workload

import (
	"bytes"
	"fmt"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/draw"
)

// sonnet makes prompts of whole lines of a text, in the manner of vLLM's sonnet dataset: first the same lines in all prompts, as many of the
// text's first as fit into the prefix, then lines drawn at random, with repetition, until the next one does not fit into the ISL. No word is
// added to fill a prompt up: it is shorter than the ISL by less than a line.
//
// How long a line is comes from the tokenizer that the file was read with. Without one, or if lines are not as long together as each for
// itself, lengths are estimates, which decide how many lines are taken, and the ISL of requests is not known.
type sonnet struct {
	*file
	lines  []verse
	prefix []verse
	common uint32 // tokens of prefix
	room   uint32 // tokens for prefix and lines
	short  int    // the shortest line
	osl    uint32
	draws  draw.Sequence
}

// verse is a line of the text.
type verse struct {
	text   []byte // the inside of a JSON string
	tokens uint32
}

// newSonnet reads the lines, which fit into memory: dataset.Build takes no more of them.
func newSonnet(s *spatev1.SonnetContent, c Config) (*sonnet, error) {
	f, err := newFile(c)
	if err != nil {
		return nil, err
	}
	w := &sonnet{file: f, room: shortened(s.GetIsl(), c.Template), osl: s.GetOsl(), draws: draw.New(c.Seed, "content")}
	if f.busting.on {
		w.room -= uint32(f.busting.tokens(f.words, Text, uint64(w.room)))
	}
	if err := w.readLines(); err != nil {
		return nil, err
	}
	w.takePrefix(s.GetPrefix())
	w.short = shortest(w.lines)
	if need := w.common + w.lines[w.short].tokens; need > w.room {
		return nil, fmt.Errorf("workload: isl %d has no room for a line of the text behind the prefix, which takes %d tokens: make it longer or the prefix shorter",
			s.GetIsl(), need)
	}
	return w, nil
}

// readLines reads all lines.
func (w *sonnet) readLines() error {
	row := w.row()
	defer w.read.Put(row)
	for i := range w.rows.Len() {
		if err := w.rows.Read(i, row); err != nil {
			return err
		}
		w.lines = append(w.lines, verse{text: slices.Clone(row.Content), tokens: verseTokens(row)})
	}
	return nil
}

// verseTokens returns the length of a line, or an estimate: English prose has about three words in four tokens.
func verseTokens(row *dataset.Row) uint32 {
	if row.ISL > 0 {
		return row.ISL
	}
	words := len(bytes.Fields(row.Content))
	return uint32((4*words + 2) / 3)
}

// takePrefix takes the first lines that fit into so many tokens.
func (w *sonnet) takePrefix(tokens uint32) {
	for i, v := range w.lines {
		if w.common+v.tokens > tokens {
			return
		}
		w.common += v.tokens
		w.prefix = w.lines[:i+1]
	}
}

// shortest returns the place of the shortest line.
func shortest(lines []verse) int {
	least := 0
	for i, v := range lines {
		if v.tokens < lines[least].tokens {
			least = i
		}
	}
	return least
}

// drawn calls yield with each line behind the prefix: at least one.
func (w *sonnet) drawn(index uint64, yield func(verse)) {
	draws, left := w.draws.Sub(index), w.room-w.common
	for j := uint64(0); ; j++ {
		v := w.lines[draws.Below(j, uint64(len(w.lines)))]
		if v.tokens > left && j == 0 {
			v = w.lines[w.short]
		}
		if v.tokens > left {
			return
		}
		yield(v)
		left -= v.tokens
	}
}

// Ask returns the length of the prompt, where it is known.
func (w *sonnet) Ask(index uint64, _ int) (Ask, error) {
	a := Ask{OSL: w.osl, Turns: 1}
	if !w.rows.Additive() || w.busting.on {
		return a, nil
	}
	a.ISL = w.template + w.common
	w.drawn(index, func(v verse) { a.ISL += v.tokens })
	if index > 0 {
		a.Shared = w.common
	}
	return a, nil
}

// AppendPrompt appends the prefix's lines and the drawn ones.
func (w *sonnet) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	if err := writable(dataset.Text, r.Form); err != nil {
		return dst, err
	}
	t := open(dst, r.Form, w.words)
	t.begin(user)
	if w.busting.on {
		t.tokens(w.busting.begins.Sub(r.Index), 0, w.words.enough(r.Form, ownBits))
		t.said(nil)
	}
	for _, v := range w.prefix {
		t.dst = append(t.dst, v.text...)
	}
	w.drawn(r.Index, func(v verse) { t.dst = append(t.dst, v.text...) })
	t.end()
	return t.close(), nil
}
