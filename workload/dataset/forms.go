package dataset

import (
	"errors"
	"fmt"
	"io"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// formOf returns the field number of a workload's content, which identifies the form of a rows file. 0: none.
func formOf(w *spatev1.Workload) uint32 {
	m := w.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("content"))
	if field == nil {
		return 0
	}
	return uint32(field.Number())
}

// newBuilder returns the builder of a workload's form.
func newBuilder(w *spatev1.Workload, o Options, skipped *Skipped) (*builder, error) {
	b := &builder{
		header: header{form: formOf(w), recordSize: longRecord}, maxSkipped: defaultSkipped, skipped: skipped,
		openItems: func(s *source) (items, error) { return newItems(s.Reader) },
		end:       func() error { return nil },
	}
	switch c := w.GetContent().(type) {
	case *spatev1.Workload_Sharegpt:
		f := &sharegpt{unused: &skipped.Unused, chat: conversation{unused: &skipped.Unused},
			lengths: lengths{count: o.Count, osl: c.Sharegpt.GetOsl()}, sessions: c.Sharegpt.GetSessions() != nil}
		b.file(c.Sharegpt, f.parse)
	case *spatev1.Workload_Jsonl:
		f := &jsonl{unused: &skipped.Unused, chat: conversation{unused: &skipped.Unused},
			lengths:  lengths{count: o.Count, osl: c.Jsonl.GetOsl(), fallback: defaultOutput},
			sessions: c.Jsonl.GetSessions() != nil}
		b.file(c.Jsonl, f.parse)
	case *spatev1.Workload_Mooncake:
		b.mooncake(c.Mooncake)
	case *spatev1.Workload_Burstgpt:
		b.table(c.Burstgpt, newBurstGPT())
	case *spatev1.Workload_Azure:
		b.table(c.Azure, newAzure())
	case *spatev1.Workload_Sonnet:
		b.sonnet(c.Sonnet, o)
	default:
		return nil, fmt.Errorf("workload %q does not use a file", w.GetName())
	}
	return b, nil
}

// setMaxSkipped sets the share of rows that may be unusable.
func (b *builder) setMaxSkipped(share *float64) {
	if share != nil {
		b.maxSkipped = *share
	}
}

// rows makes the builder read items with a function that fills in a row.
func (b *builder) rows(parse func(text []byte, row *Row) error) {
	b.parse = func(it item) error {
		b.row.clear()
		if err := parse(it.text, &b.row); err != nil {
			return err
		}
		return b.add(&b.row)
	}
}

// file reads conversations or prompts.
func (b *builder) file(c *spatev1.FileContent, parse func(text []byte, row *Row) error) {
	b.setMaxSkipped(c.MaxSkipped)
	b.rows(parse)
}

// sonnet reads lines of text. The longest request is the one that the workload asks for, whatever the lines.
func (b *builder) sonnet(c *spatev1.SonnetContent, o Options) {
	f := &sonnet{lengths: lengths{count: o.Count, osl: c.GetOsl()}, sumsMatch: o.Count != nil}
	b.openItems = func(s *source) (items, error) { return &lines{src: s.Reader}, nil }
	b.rows(f.parse)
	b.end = func() error {
		b.longest, b.unknown = uint64(c.GetIsl())+uint64(c.GetOsl()), false
		if f.sumsMatch {
			b.out.trailer.flags |= additive
		}
		return nil
	}
}

// trace reads rows with times by a function, and adds them in the order of their times.
func (b *builder) trace(
	c *spatev1.TraceContent, parse func(text []byte) (timedRow, error), fill func(timedRow, *Row) error,
) {
	b.setMaxSkipped(c.MaxSkipped)
	b.flags |= hasTimes
	sorter := &timeSorter{limit: sorterBytes, unit: "line"}
	b.parse = func(it item) error {
		t, err := parse(it.text)
		if err != nil {
			return err
		}
		t.number, sorter.unit = it.number, b.skipped.Unit
		return sorter.add(t)
	}
	sorter.emit = func(t timedRow, at time.Duration) error {
		b.row.clear()
		b.row.At, b.row.ISL, b.row.OSL = at, t.isl, t.osl
		if err := fill(t, &b.row); err != nil {
			return err
		}
		return b.add(&b.row)
	}
	b.end = func() error {
		b.skipped.Reordered = sorter.sorted
		return sorter.flush()
	}
}

// mooncake reads a trace with blocks.
func (b *builder) mooncake(c *spatev1.TraceContent) {
	block := c.GetBlockTokens()
	if block == 0 {
		block = defaultBlock
	}
	b.header.blockTokens = block
	known := newPrefixes(block)
	b.trace(c, (&mooncake{block: block, unused: &b.skipped.Unused}).parse, func(t timedRow, row *Row) (err error) {
		row.Kind, row.Blocks = Blocks, append(row.Blocks[:0], t.blocks...)
		row.Shared, err = known.shared(t.blocks, t.isl)
		return err
	})
}

// table reads a trace of lengths.
func (b *builder) table(c *spatev1.TraceContent, t *table) {
	t.unused = &b.skipped.Unused
	b.header.recordSize = shortRecord
	b.openItems = func(s *source) (items, error) {
		all := &lines{src: s.Reader}
		first, err := all.next()
		switch {
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return all, nil
		case err != nil:
			return all, err
		}
		return all, t.header(first.text)
	}
	b.trace(c, t.parse, func(timedRow, *Row) error { return nil })
}
