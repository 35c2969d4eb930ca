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

// longestWindow is the largest window of a zstd stream: what its decoder keeps in memory. It is that of the format's levels up to 19
// with room to spare; `zstd --long=27` is the most that is taken.
const longestWindow = 128 << 20

// contextReader reads until the context is done.
type contextReader struct {
	ctx context.Context
	src io.Reader
}

// Read reads, or returns why the context is done.
func (c contextReader) Read(b []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.src.Read(b)
}

// source is the text of a source file, uncompressed, without byte order mark. It goes through what it is given in a stream, so that a
// small file that is large when uncompressed takes time, never memory.
type source struct {
	*bufio.Reader
	close func()
}

// open finds out how a file is compressed by its first bytes.
func open(ctx context.Context, src io.Reader) (*source, error) {
	in := bufio.NewReaderSize(contextReader{ctx, src}, 1<<18)
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
		s.Reader = bufio.NewReaderSize(z, 1<<18)
	case bytes.Equal(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(longestWindow))
		if err != nil {
			return nil, fmt.Errorf("not a good zstd file: %w", whole(err))
		}
		s.Reader, s.close = bufio.NewReaderSize(z, 1<<18), z.Close
	}
	if err := s.mark(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
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
