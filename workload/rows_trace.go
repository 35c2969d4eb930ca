package workload

import (
	"bytes"
	"fmt"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// trace sends requests with the lengths of a trace: arrival i has the lengths of row i. After the last row it starts
// over with other text. Rows that hold their text or messages are sent with them, again after the last row.
//
// The text of a block is drawn from its hash id. Equal ids give equal text, and prompts that start
// with the same ids start alike, so that prefix caches get the hits they had when the trace was recorded. The text is
// also drawn from the seed and from the number of passes over the trace, so that a stage finds nothing of an earlier
// stage, or of its own first pass, in a cache.
type trace struct {
	*file
	contents draw.Sequence // of rows without blocks
	blocks   draw.Sequence
	planned  draw.Sequence // planned answers
	play     play
}

// newTrace checks the content.
func newTrace(content *spatev1.TraceContent, c Config) (*trace, error) {
	f, err := newFile(c)
	if err != nil {
		return nil, err
	}
	w := &trace{file: f, contents: draw.New(c.Seed, "content"), blocks: draw.New(c.Seed, "blocks"),
		planned: draw.New(c.Seed, "answers")}
	if !f.rows.Has(rows.Steps) {
		return w, nil
	}
	if w.play = newPlay(content.GetSessions(), c); !f.rows.Continued() {
		return w, nil
	}
	return w, w.play.checkForm(c.Form)
}

// Spec returns the lengths of a row. The ISL of text and messages is as in prompts. Shared counts the whole blocks at
// the start of the prompt that an earlier row of the trace had too, and all of a text or messages sent before.
func (w *trace) Spec(index uint64, turn int) (Spec, error) {
	row := w.row()
	defer w.read.Put(row)
	if err := w.rows.ReadMetadata(index%w.rows.Len(), row); err != nil {
		return Spec{}, err
	}
	if row.Kind == rows.Steps {
		return w.stepSpec(row, index, turn)
	}
	s := Spec{OSL: row.OSL, Shared: row.Shared, Turns: 1}
	if s.Fields = row.Kind == rows.MessagesWithFields; row.Kind == rows.Text || row.HasMessages() {
		if s.ISL = w.contentISL(row); index >= w.rows.Len() {
			s.Shared = s.ISL
		}
	} else {
		s.ISL = serverISL(row.ISL, w.template)
	}
	if w.busting.on {
		s.Shared = 0
	}
	return s, nil
}

// AppendPrompt appends as many tokens as the row asks for, minus those that the server adds.
func (w *trace) AppendPrompt(dst []byte, r Request) ([]byte, error) {
	row := w.row()
	defer w.read.Put(row)
	n := w.rows.Len()
	if err := w.rows.Read(r.Index%n, row); err != nil {
		return dst, err
	}
	contents := w.contents.Sub(r.Index)
	if row.Kind == rows.Steps {
		if err := openStep(row, r.Index%n, r.Turn); err != nil {
			return dst, err
		}
		if row.Steps[r.Turn].Continues {
			return w.appendHistory(dst, row, r)
		}
		contents = contents.Sub(uint64(r.Turn))
	}
	if row.Kind == rows.Text || row.HasMessages() {
		return w.appendContent(dst, row, r), nil
	}
	length := uint64(contentTokens(row.ISL, w.template))
	t := open(dst, r.Form, w.words)
	t.begin(user)
	from := w.busting.start(&t, r.Index, length)
	if row.Kind == rows.Blocks {
		w.appendBlocks(&t, row.Blocks, w.blocks.Sub(r.Index/n), from, length)
	} else {
		t.tokens(contents, from, length-from)
	}
	t.end()
	return t.close(), nil
}

// AppendFields implements Fielder.
func (w *trace) AppendFields(body []byte, index uint64, turn int) ([]byte, error) {
	return w.appendFields(body, index%w.rows.Len(), turn)
}

// appendBlocks writes the tokens of blocks that lie at places from to to-1 of the prompt.
func (w *trace) appendBlocks(t *transcript, blocks []uint64, texts draw.Sequence, from, to uint64) {
	size := uint64(w.rows.BlockTokens())
	for i, id := range blocks {
		start := uint64(i) * size
		first, end := max(start, from), min(start+size, to)
		if first < end {
			t.tokens(texts.Sub(id), first-start, end-first)
		}
	}
}

// TraceTimes gives the times of a trace's rows, as schedule.Times does.
type TraceTimes interface {
	// Len returns the number of rows.
	Len() uint64
	// At returns the time of row i since the trace's start, and false if the row has no time or cannot be read.
	At(i uint64) (time.Duration, bool)
}

// tracesBlock is how many arrivals lie between two for which the earlier arrivals of each part are known.
const tracesBlock = 1024

// Traces is the order in which several traces are replayed at once: by time, and at one time in the order of the
// traces. Together they are a trace. A Traces is immutable and may be used concurrently. It takes a byte for each row.
type Traces struct {
	traces []TraceTimes
	parts  []byte   // by arrival
	before []uint64 // by block and part: the part's arrivals before the block
}

// NewTraces returns the order of the rows of traces, of which there are at most 256. It reads all times. It returns an
// error if one cannot be read.
func NewTraces(traces []TraceTimes) (*Traces, error) {
	t := &Traces{traces: traces}
	next, at := make([]uint64, len(traces)), make([]time.Duration, len(traces))
	read := func(part int) error {
		var ok bool
		if at[part], ok = traces[part].At(next[part]); !ok {
			return fmt.Errorf("mix: row %d of the trace of part %d has no readable time", next[part], part+1)
		}
		return nil
	}
	for part := range traces {
		if err := read(part); err != nil {
			return nil, err
		}
	}
	for {
		first := -1
		for part, trace := range traces {
			if next[part] < trace.Len() && (first < 0 || at[part] < at[first]) {
				first = part
			}
		}
		if first < 0 {
			return t, nil
		}
		if len(t.parts)%tracesBlock == 0 {
			t.before = append(t.before, next...)
		}
		t.parts = append(t.parts, byte(first))
		if next[first]++; next[first] < traces[first].Len() {
			if err := read(first); err != nil {
				return nil, err
			}
		}
	}
}

// Of returns the trace that an arrival belongs to, and the number of its row. Behind the last row all traces start
// again, and numbers continue.
func (t *Traces) Of(index uint64) (part int, number uint64) {
	pass, i := index/t.Len(), index%t.Len()
	owner := t.parts[i]
	block := i / tracesBlock
	part = int(owner)
	number = t.before[block*uint64(len(t.traces))+uint64(part)] +
		uint64(bytes.Count(t.parts[block*tracesBlock:i], []byte{owner}))
	return part, number + pass*t.traces[part].Len()
}

// Len implements TraceTimes.
func (t *Traces) Len() uint64 { return uint64(len(t.parts)) }

// At implements TraceTimes.
func (t *Traces) At(i uint64) (time.Duration, bool) {
	if i >= t.Len() {
		return 0, false
	}
	part, row := t.Of(i)
	return t.traces[part].At(row)
}
