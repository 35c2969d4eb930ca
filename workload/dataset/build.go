// Package dataset turns the file of a workload into rows.
//
// Build reads a source file (a ShareGPT export, a trace, a list of prompts) once, as a stream, in bounded memory
// whatever the file's size. It writes a rows file (package rows). Equal sources give equal bytes. Build finds every
// fault of a source and reports it with its line number.
//
// The package makes no prompts: package workload makes them from the rows. The package knows no network, no plan and no
// server. `spate run` calls Build, agents call rows.Open.
package dataset

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// Options are the inputs of Build beyond the plan.
type Options struct {
	// Name is the name of the source in errors: its path.
	Name string
	// More are the other files of a source that has several. They are read in order.
	More []Input
	// Count returns the number of tokens of a text, without those that servers add. Nil: there is no tokenizer, and
	// lengths that need one stay unknown.
	Count func(text string) int
	// MaxBytes is the maximum size of the source's text, uncompressed. Default 64 GiB.
	MaxBytes uint64
}

// Input is one of several files.
type Input struct {
	// Name is the file's name in errors.
	Name string
	// Open opens the file. Build closes it.
	Open func() (io.ReadCloser, error)
}

// Skipped is what a source contains and no request uses.
type Skipped struct {
	// Unusable counts faulty rows. max_skipped limits their share.
	Unusable uint64
	// Excluded counts rows that are valid, but by the rules of their form make no request: failed requests of a trace,
	// conversations without an answer, empty lines.
	Excluded uint64
	// Reordered counts rows of a trace that came later in the file than their times say. They were sorted.
	Reordered uint64
	// Seconds: the numbers of a trace whose form has milliseconds can only be seconds, and were read as such.
	Seconds bool
	// Unused are members that were ignored in rows that were otherwise used.
	Unused Unused
	// First are the first few unusable rows, one for each reason.
	First []SkippedRow
	// Unit is what the numbers of First count: "line", "element" or "row".
	Unit string

	file string // that is being read, if there are several
}

// SkippedRow is a source row that was skipped, with the reason.
type SkippedRow struct {
	// File is the name of the row's file if the source has several, else empty.
	File string
	// Number is the number of the line or element, from 1.
	Number uint64
	// Reason completes a sentence that starts with unit and number: "line 3 is empty".
	Reason string
}

// maxNamed is the maximum number of unusable rows that are named.
const maxNamed = 5

// note counts a skipped row.
func (s *Skipped) note(number uint64, u *unusableError) {
	if u.excluded {
		s.Excluded++
		return
	}
	known := slices.ContainsFunc(s.First, func(r SkippedRow) bool { return r.File == s.file && r.Reason == u.reason })
	if s.Unusable++; !known && len(s.First) < maxNamed {
		s.First = append(s.First, SkippedRow{File: s.file, Number: number, Reason: u.reason})
	}
}

// String names the first unusable rows.
func (s *Skipped) String() string {
	var all []string
	for _, row := range s.First {
		text := fmt.Sprintf("%s %d %s", s.Unit, row.Number, row.Reason)
		if row.File != "" {
			text = row.File + ": " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// defaultMaxBytes is the default maximum size, in bytes, of a source's text.
const defaultMaxBytes = 64 << 30

// defaultSkipped is the share of rows that may be unusable unless the plan says otherwise.
const defaultSkipped = 0.01

// Build reads a source file (gzip, zstd or plain) and writes its rows file to dst. It reads once, as a stream, or a
// Parquet file, which needs an io.ReaderAt with a Size, by its groups of rows. Of the
// source it holds one line in memory (at most 32 MiB; longer lines are unusable), of a trace 16 MiB of rows to sort,
// and in Mooncake's form 11 to 23 bytes for each different block. Of a trace whose sessions are played it holds all
// rows, what they have in common once, up to 1 GiB. The same source, workload and counts give the same
// bytes.
//
// Skipped is never nil. Build returns an error if the source ends too early, has too much text or a line of more than 1
// GiB, looks like a decompression bomb, is not in the workload's form, has no usable row, or has more unusable rows
// than max_skipped allows. That last error names the first unusable rows. After an error, what was written to dst is
// useless.
func Build(
	ctx context.Context, dst io.Writer, src io.Reader, w *spatev1.Workload, o Options,
) (*spatev1.Dataset, *Skipped, error) {
	skipped := &Skipped{Unit: "line"}
	b, err := newBuilder(w, o, skipped)
	if err != nil {
		return nil, skipped, fmt.Errorf("dataset: %w", err)
	}
	b.maxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	b.name, b.more = o.Name, o.More
	d, err := b.build(ctx, dst, src)
	if err != nil {
		return nil, skipped, fmt.Errorf("dataset: %s: %w", cmp.Or(o.Name, "the file of workload "+w.GetName()), err)
	}
	return d, skipped, nil
}

// builder builds one rows file.
type builder struct {
	name       string
	more       []Input
	header     rows.Header
	flags      uint32
	maxSkipped float64 // share of rows that may be unusable
	maxBytes   uint64  // maximum bytes of text
	skipped    *Skipped
	// openItems finds the lines or elements.
	openItems func(*itemSource) (itemReader, error)
	// parse reads an item and adds its row. After an unusableError the row was not added.
	parse func(item item) error
	// end adds the remaining rows.
	end func() error
	// times finds out the unit of a trace's times.
	times timeUnit

	out     *rows.Writer
	row     rows.Row
	read    uint64
	longest uint64
	unknown bool // some row's length is not known
	span    time.Duration
}

// build reads the files of the source and writes the rows file.
func (b *builder) build(ctx context.Context, dst io.Writer, src io.Reader) (d *spatev1.Dataset, err error) {
	if b.out, err = rows.NewWriter(dst, b.header); err != nil {
		return nil, err
	}
	if len(b.more) > 0 {
		b.skipped.file = b.name
	}
	if err := b.readFile(ctx, b.name, src); err != nil {
		return nil, err
	}
	for _, in := range b.more {
		b.skipped.file = in.Name
		src, err := in.Open()
		if err == nil {
			err = errors.Join(b.readFile(ctx, in.Name, src), src.Close())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.Name, err)
		}
	}
	if err := b.end(); err != nil {
		return nil, err
	}
	if err := b.checkUsable(); err != nil {
		return nil, err
	}
	return b.result()
}

// readFile reads a file.
func (b *builder) readFile(ctx context.Context, name string, src io.Reader) error {
	in, err := openSource(ctx, src, b.maxBytes)
	if err != nil {
		return err
	}
	defer in.Close()
	in.Name = name
	all, err := b.openItems(in)
	if err != nil {
		return err
	}
	b.skipped.Unit = all.Unit()
	return b.readAll(all)
}

// readAll reads all items.
func (b *builder) readAll(all itemReader) error {
	for {
		it, err := all.Next()
		switch {
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		switch {
		case it.TooLong:
			err = unusable("is longer than %d MiB", maxUsed>>20)
		case it.Fault != nil:
			err = unusable("%v", it.Fault)
		case len(bytes.TrimSpace(it.Text)) == 0 && it.Fields == nil && all.Unit() == "line":
			err = exclude("is empty")
		default:
			err = b.parse(it)
		}
		b.read++
		var bad *unusableError
		switch {
		case errors.As(err, &bad):
			b.skipped.note(it.Number, bad)
		case err != nil:
			return fmt.Errorf("%s %d: %w", all.Unit(), it.Number, err)
		}
	}
}

// add writes the row.
func (b *builder) add(row *rows.Row) error {
	total, unknown := uint64(row.ISL)+uint64(row.OSL), row.ISL == 0
	switch row.Kind {
	case rows.Session:
		total = 0
		for _, t := range row.Turns {
			total += uint64(t.ISL) + uint64(t.OSL)
		}
	case rows.Steps:
		total, unknown = longestStep(row.Steps)
	case rows.Texts:
		total, unknown = uint64(row.OSL), false
		for _, text := range row.Turns { // each is a prompt of its own
			total, unknown = max(total, uint64(text.ISL)+uint64(row.OSL)), unknown || text.ISL == 0
		}
	case rows.Documents:
		unknown = true // A server reads each document with the query, and words of its own around them.
	default:
		b.noteFields(row)
	}
	b.unknown = b.unknown || unknown
	b.longest = max(b.longest, total)
	b.span = row.At
	return b.out.Add(row)
}

// noteFields notes the names of the fields that a row has beside its messages.
func (b *builder) noteFields(row *rows.Row) {
	if row.Kind != rows.MessagesWithFields {
		return
	}
	for name := range members(slices.Concat([]byte{'{'}, row.Fields, []byte{'}'})) {
		b.flags |= rows.FieldFlag(name)
	}
}

// longestStep returns the tokens, prompt and output together, of the longest request of a session, and whether any
// length is not known.
func longestStep(steps []rows.Step) (longest uint64, unknown bool) {
	history := make([]uint64, len(steps))
	for i, s := range steps {
		if s.Continues && s.Previous > 0 {
			history[i] = history[s.Previous-1]
		}
		history[i] += uint64(s.ISL) + uint64(s.OSL)
		longest, unknown = max(longest, history[i]), unknown || s.ISL == 0
	}
	return longest, unknown
}

// checkUsable returns an error unless enough rows are usable.
func (b *builder) checkUsable() error {
	s := b.skipped
	switch {
	case b.read == 0:
		return errors.New("the file is empty")
	case b.out.Len() == 0 && s.Unusable == 0:
		return fmt.Errorf("none of its %d rows makes a request: "+
			"failed requests, conversations without an answer and empty lines are skipped", b.read)
	case b.out.Len() == 0:
		return fmt.Errorf("none of its %d rows can be used: %v", b.read, s)
	case float64(s.Unusable) > b.maxSkipped*float64(b.read):
		return fmt.Errorf("%d of %d rows cannot be used, more than the share of %v that max_skipped allows: %v: "+
			"correct the rows or raise max_skipped", s.Unusable, b.read, b.maxSkipped, s)
	}
	return nil
}

// result finishes the file.
func (b *builder) result() (*spatev1.Dataset, error) {
	sha, size, err := b.out.Close(b.flags)
	if err != nil {
		return nil, err
	}
	d := &spatev1.Dataset{Sha256: sha, Size: size, Rows: b.out.Len(), Skipped: b.skipped.Unusable + b.skipped.Excluded}
	if !b.unknown {
		d.Longest = clamp(int(b.longest))
	}
	if b.flags&rows.HasTimes != 0 {
		d.Span = durationpb.New(b.span)
	}
	return d, nil
}
