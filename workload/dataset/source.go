package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// maxWindow is the maximum window of a zstd stream, which is what its decoder keeps in memory. It covers the
// format's levels up to 19 with room to spare, and up to `zstd --long=27`.
const maxWindow = 128 << 20

// Limits of a source, so that an endless source ends and a decompression bomb does not fill a disk.
const (
	// defaultMaxBytes is the default maximum size, in bytes, of a source's text.
	defaultMaxBytes = 64 << 30
	// uncheckedBytes is how many bytes of text any compressed source may have, however small it is.
	uncheckedBytes = 256 << 20
	// maxGrowth is the maximum ratio of text to compressed size beyond that. Traces reach 10 to 30.
	maxGrowth = 100
)

// contextReader reads until the context is done, and counts the bytes.
type contextReader struct {
	ctx  context.Context
	src  io.Reader
	read uint64
}

// Read reads, or returns the cause of the context's end.
func (c *contextReader) Read(b []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.src.Read(b)
	c.read += uint64(n)
	return n, err
}

// boundedReader reads the text of a source up to its limits.
type boundedReader struct {
	text        io.Reader
	read, limit uint64
	packed      *contextReader // the compressed input. Nil: the text is not compressed
}

// Read reads, or returns an error that names the limit that the source exceeds.
func (r *boundedReader) Read(b []byte) (int, error) {
	n, err := r.text.Read(b)
	r.read += uint64(n)
	switch {
	case r.read > r.limit:
		return 0, errTooMuchText(r.limit)
	case r.packed != nil && r.read > uncheckedBytes && r.read/maxGrowth > r.packed.read:
		return 0, fmt.Errorf("its first %s uncompress to %s, more than %d times as much, as in a decompression bomb: "+
			"uncompress it first if it is genuine", formatBytes(r.packed.read), formatBytes(r.read), maxGrowth)
	}
	return n, err
}

// errTooMuchText returns the error for a source with more bytes of text than the limit.
func errTooMuchText(limit uint64) error {
	return fmt.Errorf("it has more than %s of text: use a part of it, or raise the limit (SPATE_DATASET_MAX_SIZE)",
		formatBytes(limit))
}

// formatBytes formats a size.
func formatBytes(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<18:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// source is the text of a source file, uncompressed, without byte order mark. It is a stream, so that a small file that
// is large when uncompressed takes time, never memory.
type source struct {
	*bufio.Reader
	name  string
	raw   io.Reader // the file as it is, for formats that are not read as a stream
	close func()
}

// open detects the compression of a file by its first bytes.
func open(ctx context.Context, src io.Reader, maxBytes uint64) (*source, error) {
	raw := &contextReader{ctx: ctx, src: src}
	bounded := &boundedReader{text: raw, limit: maxBytes}
	in := bufio.NewReaderSize(bounded, 1<<18)
	s := &source{Reader: in, raw: src, close: func() {}}
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("not a valid gzip file: %w", explainEOF(err))
		}
		s.decompress(z, raw, maxBytes)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("not a valid zstd file: %w", explainEOF(err))
		}
		s.decompress(z, raw, maxBytes)
		s.close = z.Close
	}
	if err := s.skipByteOrderMark(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// decompress continues with the output of a decompressor.
func (s *source) decompress(text io.Reader, packed *contextReader, maxBytes uint64) {
	s.Reader = bufio.NewReaderSize(&boundedReader{text: text, limit: maxBytes, packed: packed}, 1<<18)
}

// skipByteOrderMark skips a UTF-8 byte order mark, and refuses those of UTF-16.
func (s *source) skipByteOrderMark() error {
	head, err := s.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return explainEOF(err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0xef, 0xbb, 0xbf}):
		_, err := s.Discard(3)
		return err
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return errors.New("its text is in UTF-16: save it as UTF-8")
	}
	return nil
}

// explainEOF explains an unexpected end of compressed data.
func explainEOF(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends too early: the file may be incomplete: %w", err)
	}
	return err
}

// Source is a form of file that workloads take their content from. A new source is a field of Workload.content in
// plan.proto, and a file of this package that registers it.
type Source struct {
	// Name is the name of the field in a plan.
	Name string
	// Help says in a few words what such a file has, and Example describes its text in a sentence.
	Help, Example string
	// build makes the builder read the workload's file.
	build func(b *builder, w *spatev1.Workload, o Options)
}

// sources are the sources by the number of their field in a workload, which identifies the form of a rows file.
var sources = map[uint32]Source{}

// register adds a source. It panics unless a workload has a field of its name that no other source has.
func register(name string, s Source) {
	fields := (*spatev1.Workload)(nil).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	field := fields.ByName(protoreflect.Name(name))
	if field == nil || sources[uint32(field.Number())].build != nil {
		panic(fmt.Sprintf("dataset: source %q is not a field of a workload, or registered twice", name))
	}
	s.Name = name
	sources[uint32(field.Number())] = s
}

// Sources returns the sources in the order of their fields.
func Sources() []Source {
	var all []Source
	for _, number := range slices.Sorted(maps.Keys(sources)) {
		all = append(all, sources[number])
	}
	return all
}
