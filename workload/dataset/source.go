package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// longestWindow is the maximum window of a zstd stream, which is what its decoder keeps in memory. It covers the
// format's levels up to 19 with room to spare, and up to `zstd --long=27`.
const longestWindow = 128 << 20

// Limits of a source, so that an endless source ends and a decompression bomb does not fill a disk.
const (
	// defaultMost is the default maximum size, in bytes, of a source's text.
	defaultMost = 64 << 30
	// freely is how many bytes of text any compressed source may have, however small it is.
	freely = 256 << 20
	// mostGrowth is the maximum ratio of text to compressed size beyond that. Traces reach 10 to 30.
	mostGrowth = 100
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
	text       io.Reader
	read, most uint64
	packed     *contextReader // the compressed input. Nil: the text is not compressed
}

// Read reads, or returns an error that names the limit that the source exceeds.
func (r *boundedReader) Read(b []byte) (int, error) {
	n, err := r.text.Read(b)
	r.read += uint64(n)
	switch {
	case r.read > r.most:
		return 0, fmt.Errorf("it has more than %s of text: use a part of it, or raise the limit (SPATE_DATASET_MAX_SIZE)", inBytes(r.most))
	case r.packed != nil && r.read > freely && r.read/mostGrowth > r.packed.read:
		return 0, fmt.Errorf("its first %s uncompress to %s, more than %d times as much, as in a decompression bomb: uncompress it first "+
			"if it is genuine", inBytes(r.packed.read), inBytes(r.read), mostGrowth)
	}
	return n, err
}

// inBytes formats a size.
func inBytes(n uint64) string {
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
	close func()
}

// open detects the compression of a file by its first bytes.
func open(ctx context.Context, src io.Reader, most uint64) (*source, error) {
	raw := &contextReader{ctx: ctx, src: src}
	bounded := &boundedReader{text: raw, most: most}
	in := bufio.NewReaderSize(bounded, 1<<18)
	s := &source{Reader: in, close: func() {}}
	begin, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("not a valid gzip file: %w", whole(err))
		}
		s.unpacked(z, raw, most)
	case bytes.Equal(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(longestWindow))
		if err != nil {
			return nil, fmt.Errorf("not a valid zstd file: %w", whole(err))
		}
		s.unpacked(z, raw, most)
		s.close = z.Close
	}
	if err := s.mark(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// unpacked continues with the output of a decompressor.
func (s *source) unpacked(text io.Reader, packed *contextReader, most uint64) {
	s.Reader = bufio.NewReaderSize(&boundedReader{text: text, most: most, packed: packed}, 1<<18)
}

// mark skips a UTF-8 byte order mark, and refuses those of UTF-16.
func (s *source) mark() error {
	begin, err := s.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return whole(err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte{0xef, 0xbb, 0xbf}):
		_, err := s.Discard(3)
		return err
	case bytes.HasPrefix(begin, []byte{0xff, 0xfe}), bytes.HasPrefix(begin, []byte{0xfe, 0xff}):
		return errors.New("its text is in UTF-16: save it as UTF-8")
	}
	return nil
}

// whole explains an unexpected end of compressed data.
func whole(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends too early: the file may be incomplete: %w", err)
	}
	return err
}
