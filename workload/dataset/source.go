package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/spate-load/spate/internal/words"
)

// maxWindow is the maximum window of a zstd stream, which is what its decoder keeps in memory. It covers the
// format's levels up to 19 with room to spare, and up to `zstd --long=27`.
const maxWindow = 128 << 20

// Limits of a source, so that an endless source ends and a decompression bomb does not fill a disk.
const (
	// uncheckedBytes is how many bytes of text any compressed source may have, however small it is.
	uncheckedBytes = 16 << 20
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

// room is how much text a source may have: one check for all formats.
type room struct {
	limit  uint64
	packed func() uint64 // bytes of the file from which the text so far was made. Nil: the text is not compressed
}

// check returns an error that names the limit that so much text exceeds.
func (r room) check(text uint64) error {
	if text > r.limit {
		return fmt.Errorf("it has more than %s of text: use a part of it, or raise the limit (SPATE_DATASET_MAX_SIZE)",
			words.Bytes(r.limit))
	}
	if r.packed == nil || text <= uncheckedBytes || text/maxGrowth <= r.packed() {
		return nil
	}
	return fmt.Errorf("its first %s uncompress to %s, more than %d times as much, as in a decompression bomb: "+
		"uncompress it first if it is genuine", words.Bytes(r.packed()), words.Bytes(text), maxGrowth)
}

// boundedReader reads the text of a source up to its limits.
type boundedReader struct {
	text io.Reader
	read uint64
	room room
}

// Read reads, or returns an error that names the limit that the source exceeds.
func (r *boundedReader) Read(b []byte) (int, error) {
	n, err := r.text.Read(b)
	r.read += uint64(n)
	if err := r.room.check(r.read); err != nil {
		return 0, err
	}
	return n, err
}

// itemSource is the text of a source file, uncompressed, without byte order mark. It is a stream, so that a small file
// that is large when uncompressed takes time, never memory.
type itemSource struct {
	*bufio.Reader
	Name  string
	Raw   io.Reader // the file as it is, for formats that are not read as a stream
	Close func()
}

// openSource detects the compression of a file by its first bytes, and skips a byte order mark. Text of more than
// maxBytes bytes is an error when it is read, and so is the end of ctx. The caller calls Close of the source.
func openSource(ctx context.Context, src io.Reader, maxBytes uint64) (*itemSource, error) {
	raw := &contextReader{ctx: ctx, src: src}
	bounded := &boundedReader{text: raw, room: room{limit: maxBytes}}
	in := bufio.NewReaderSize(bounded, 1<<18)
	s := &itemSource{Reader: in, Raw: src, Close: func() {}}
	head, err := in.Peek(6)
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
	case bytes.HasPrefix(head, []byte("ARROW1")), bytes.HasPrefix(head, []byte{0xff, 0xff, 0xff, 0xff}):
		return nil, errors.New("an Arrow file, which Spate does not read: write it as Parquet")
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("not a valid zstd file: %w", explainEOF(err))
		}
		s.decompress(z, raw, maxBytes)
		s.Close = z.Close
	}
	if err := s.skipByteOrderMark(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// decompress continues with the output of a decompressor.
func (s *itemSource) decompress(text io.Reader, packed *contextReader, maxBytes uint64) {
	r := room{limit: maxBytes, packed: func() uint64 { return packed.read }}
	s.Reader = bufio.NewReaderSize(&boundedReader{text: text, room: r}, 1<<18)
}

// skipByteOrderMark skips a UTF-8 byte order mark, and refuses those of UTF-16.
func (s *itemSource) skipByteOrderMark() error {
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

// extension returns the extension of a file's name, in lowercase and without that of its compression.
func extension(name string) string {
	return path.Ext(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".gz"), ".zst"))
}
