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

// longestWindow is the largest window of a zstd stream: what its decoder keeps in memory. It is that of the format's
// levels up to 19 with room to spare; `zstd --long=27` is the most that is taken.
const longestWindow = 128 << 20

// Bounds of a source, so that an endless one ends, and a small one that is made to be huge when it is uncompressed does
// not fill a disk.
const (
	// defaultMost is how many bytes of text a source may have where nothing else is said.
	defaultMost = 64 << 30
	// freely is how many bytes of text a compressed source may have however small it is.
	freely = 256 << 20
	// mostGrowth is how many times as large as itself a compressed source may be beyond that. Traces come to 10 to 30
	// times.
	mostGrowth = 100
)

// contextReader reads until the context is done, and counts.
type contextReader struct {
	ctx  context.Context
	src  io.Reader
	read uint64
}

// Read reads, or returns why the context is done.
func (c *contextReader) Read(b []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.src.Read(b)
	c.read += uint64(n)
	return n, err
}

// boundedReader reads the text of a source up to its bounds.
type boundedReader struct {
	text       io.Reader
	read, most uint64
	packed     *contextReader // what the text comes from. Nil: it is not compressed
}

// Read reads, or returns which bound the source exceeds.
func (r *boundedReader) Read(b []byte) (int, error) {
	n, err := r.text.Read(b)
	r.read += uint64(n)
	switch {
	case r.read > r.most:
		return 0, fmt.Errorf("it has more than %s of text: use a part of it, or raise the limit (SPATE_DATASET_MAX_SIZE)", inBytes(r.most))
	case r.packed != nil && r.read > freely && r.read/mostGrowth > r.packed.read:
		return 0, fmt.Errorf("%s of it are %s of text, more than %d times as much: a file that is made to fill disks; uncompress it first "+
			"if it is not", inBytes(r.packed.read), inBytes(r.read), mostGrowth)
	}
	return n, err
}

// inBytes says a size in words.
func inBytes(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<18:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// source is the text of a source file, uncompressed, without byte order mark. It goes through what it is given in a
// stream, so that a small file that is large when uncompressed takes time, never memory.
type source struct {
	*bufio.Reader
	close func()
}

// open finds out how a file is compressed by its first bytes.
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
			return nil, fmt.Errorf("not a good gzip file: %w", whole(err))
		}
		s.unpacked(z, raw, most)
	case bytes.Equal(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(longestWindow))
		if err != nil {
			return nil, fmt.Errorf("not a good zstd file: %w", whole(err))
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

// unpacked reads on from a decompressor.
func (s *source) unpacked(text io.Reader, packed *contextReader, most uint64) {
	s.Reader = bufio.NewReaderSize(&boundedReader{text: text, most: most, packed: packed}, 1<<18)
}

// mark skips a byte order mark of UTF-8, and refuses those of UTF-16.
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
		return errors.New("text in UTF-16: save it as UTF-8")
	}
	return nil
}

// whole says of an end in the middle of compressed data what it means.
func whole(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it ends too early, as a file that was not copied whole: %w", err)
	}
	return err
}
