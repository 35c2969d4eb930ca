package workload

import (
	"strconv"

	"github.com/spate-load/spate/workload/dataset"
	"github.com/spate-load/spate/workload/draw"
)

// trace sends requests of the lengths of a trace: arrival i has those of row i. Behind the last row the first comes
// again, with other text.
//
// In Mooncake's form the text of a block is drawn from its hash id: equal ids give equal text, and prompts that begin
// with the same ids begin alike, so that prefix caches find what they found when the trace was recorded. It is drawn
// from the seed too, and from how often the trace was gone through before: a stage finds nothing of the stage before it
// in a cache, nor a second time through the trace of the first.
type trace struct {
	*file
	contents draw.Sequence // of rows without blocks
	blocks   draw.Sequence
}

// newTrace checks the content.
func newTrace(c Config) (*trace, error) {
	f, err := newFile(c)
	if err != nil {
		return nil, err
	}
	return &trace{file: f, contents: draw.New(c.Seed, "content"), blocks: draw.New(c.Seed, "blocks")}, nil
}

// Ask returns the lengths of a row. Shared counts a prompt's whole blocks from its begin that a row before it in the
// trace had.
func (w *trace) Ask(index uint64, _ int) (Ask, error) {
	row := w.row()
	defer w.read.Put(row)
	if err := w.rows.Head(index%w.rows.Len(), row); err != nil {
		return Ask{}, err
	}
	a := Ask{ISL: counted(row.ISL, w.template), OSL: row.OSL, Shared: row.Shared, Turns: 1}
	if w.busting.on {
		a.Shared = 0
	}
	return a, nil
}

// AppendPrompt appends as many tokens as the row asks for, less those that the server adds.
func (w *trace) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	row := w.row()
	defer w.read.Put(row)
	n := w.rows.Len()
	if err := w.rows.Read(r.Index%n, row); err != nil {
		return dst, err
	}
	length := uint64(shortened(row.ISL, w.template))
	t := open(dst, r.Form, w.words)
	t.begin(user)
	from := w.busting.tokens(w.words, r.Form, length)
	t.tokens(w.busting.begins.Sub(r.Index), 0, from)
	if row.Kind == dataset.Blocks {
		w.appendBlocks(&t, row.Blocks, w.blocks.Sub(r.Index/n), from, length)
	} else {
		t.tokens(w.contents.Sub(r.Index), from, length-from)
	}
	t.end()
	return t.close(), nil
}

// appendBlocks writes the tokens of blocks from one place of the prompt to another.
func (w *trace) appendBlocks(t *transcript, blocks []uint64, texts draw.Sequence, from, to uint64) {
	size := uint64(w.rows.BlockTokens())
	for i, id := range blocks {
		begin := uint64(i) * size
		first, end := max(begin, from), min(begin+size, to)
		if first < end {
			t.tokens(texts.Sub(id), first-begin, end-first)
		}
	}
}

// ids appends token ids.
func (t *transcript) ids(list []uint32) {
	for _, id := range list {
		if t.joint {
			t.dst = append(t.dst, ',')
		}
		t.dst = strconv.AppendUint(t.dst, uint64(id), 10)
		t.joint = true
	}
}
