package rows

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// File is an open rows file with random access. It keeps 8 bytes per 4,096 rows in memory, and no rows. It is safe for
// concurrent use.
type File struct {
	file    io.ReaderAt
	close   func() error
	header  Header
	trailer trailer
	chunks  []uint64 // offset of each chunk's records
}

// Open opens a rows file. It returns an error if the file is not a rows file, has another version, or is incomplete.
// The caller closes the result.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dataset: %w", err), f.Close())
	}
	r, err := New(f, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	r.close = f.Close
	return r, nil
}

// New returns the rows of a file of size bytes. It reads the file's start, its end and its directory, and returns an
// error under the same conditions as Open. Close does not close the file.
func New(file io.ReaderAt, size int64) (*File, error) {
	r := &File{file: file, close: func() error { return nil }}
	head, tail := make([]byte, headerSize), make([]byte, trailerSize)
	if size < headerSize+trailerSize {
		return nil, fmt.Errorf("dataset: not a rows file: it has only %d bytes", size)
	}
	if _, err := file.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	if _, err := file.ReadAt(tail, size-trailerSize); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	var err error
	if r.header, err = parseHeader(head); err != nil {
		return nil, err
	}
	var checksum uint32
	if r.trailer, checksum, err = parseTrailer(tail); err != nil {
		return nil, err
	}
	return r, r.readDirectory(tail, checksum, uint64(size))
}

// readDirectory reads the directory, which must fill the space before the trailer and point to places within the file.
func (r *File) readDirectory(tail []byte, checksum uint32, size uint64) error {
	t := r.trailer
	chunks := t.rows/chunkRows + min(1, t.rows%chunkRows)
	if t.rows == 0 || t.rows > math.MaxInt64/LongRecord || t.directory > size ||
		size-trailerSize-t.directory != 8*chunks {
		return damaged("its size of %d bytes does not fit its %d rows", size, t.rows)
	}
	b := make([]byte, 8*chunks)
	if _, err := r.file.ReadAt(b, int64(t.directory)); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	if crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, tail[:trailerSize-12]) != checksum {
		return damaged("the checksum of its directory is wrong")
	}
	end := uint64(headerSize)
	for c := range chunks {
		offset := binary.LittleEndian.Uint64(b[8*c:])
		length := min(chunkRows, t.rows-c*chunkRows) * uint64(r.header.RecordSize)
		if offset < end || offset > t.directory || t.directory-offset < length {
			return damaged("chunk %d lies outside the file", c)
		}
		end = offset + length
		r.chunks = append(r.chunks, offset)
	}
	return nil
}

// Close closes the file.
func (r *File) Close() error { return r.close() }

// Len returns the number of rows, at least 1.
func (r *File) Len() uint64 { return r.trailer.rows }

// BlockTokens returns the number of prompt tokens that each of a row's blocks stands for. 0: there are no rows of
// blocks.
func (r *File) BlockTokens() uint32 { return r.header.BlockTokens }

// Has reports whether any row is of the kind.
func (r *File) Has(k Kind) bool { return r.trailer.kinds>>k&1 == 1 }

// Continued reports whether any step of a session continues the history of its conversation.
func (r *File) Continued() bool { return r.trailer.flags&Continued != 0 }

// HasField reports whether any row has a field of FieldNames.
func (r *File) HasField(name string) bool { return r.trailer.flags&FieldFlag(name) != 0 }

// BuiltFor reports whether the rows were built for the content of a workload.
func (r *File) BuiltFor(w *spatev1.Workload) bool {
	number, _ := content.Of(w)
	return r.header.Form == number
}

// ReadMetadata reads row i without its content. It reuses the row's memory.
func (r *File) ReadMetadata(i uint64, row *Row) error {
	_, err := r.metadata(i, row)
	return err
}

// metadata reads the record of row i and returns the place of its content.
func (r *File) metadata(i uint64, row *Row) (place, error) {
	if i >= r.trailer.rows {
		return place{}, fmt.Errorf("dataset: row %d was requested, but there are %d rows", i, r.trailer.rows)
	}
	row.Reset()
	size := uint64(r.header.RecordSize)
	record := row.record[:size]
	if _, err := r.file.ReadAt(record, int64(r.chunks[i/chunkRows]+i%chunkRows*size)); err != nil {
		return place{}, fmt.Errorf("dataset: row %d: %w", i, err)
	}
	p, err := parseRecord(record, i, row)
	if err != nil {
		return p, err
	}
	if end := r.trailer.directory; p.offset > end || end-p.offset < uint64(p.length) {
		return p, damaged("the content of row %d lies outside the file", i)
	}
	return p, nil
}

// Read reads row i. It reuses the row's memory. The error wraps ErrDamaged if a checksum is wrong.
func (r *File) Read(i uint64, row *Row) error {
	p, err := r.metadata(i, row)
	if err != nil || row.Kind == Lengths {
		return err
	}
	return r.content(i, p, row)
}

// content reads the content of row i.
func (r *File) content(i uint64, p place, row *Row) error {
	row.content = slices.Grow(row.content[:0], int(p.length))[:p.length]
	if _, err := r.file.ReadAt(row.content, int64(p.offset)); err != nil {
		return fmt.Errorf("dataset: row %d: %w", i, err)
	}
	if crc32.Checksum(row.content, castagnoli) != p.checksum {
		return damaged("the checksum of the content of row %d is wrong", i)
	}
	if err := parseContent(row.content, row); err != nil {
		return damaged("row %d: %v", i, err)
	}
	return nil
}

// rowPool has rows that times are read into, so that At does not allocate.
var rowPool = sync.Pool{New: func() any { return new(Row) }}

// At returns the time of row i since the first row. False: the row does not exist or cannot be read, or rows have no
// times.
func (r *File) At(i uint64) (time.Duration, bool) {
	if i >= r.trailer.rows || r.trailer.flags&HasTimes == 0 {
		return 0, false
	}
	row, _ := rowPool.Get().(*Row)
	defer rowPool.Put(row)
	if err := r.ReadMetadata(i, row); err != nil {
		return 0, false
	}
	return row.At, true
}

// Writer writes a rows file in one pass. It holds the records of one chunk, and 8 bytes for each earlier chunk.
type Writer struct {
	out       *bufio.Writer
	sum       hash.Hash
	header    Header
	trailer   trailer
	written   uint64
	records   []byte
	directory []byte
	content   []byte
}

// NewWriter starts a rows file. The caller calls Close when all rows are added.
func NewWriter(dst io.Writer, h Header) (*Writer, error) {
	sum := sha256.New()
	w := &Writer{out: bufio.NewWriterSize(io.MultiWriter(dst, sum), 1<<18), sum: sum, header: h}
	return w, w.write(h.append(nil))
}

// write writes bytes and counts them.
func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.written += uint64(n)
	return err
}

// Len returns the number of rows added so far.
func (w *Writer) Len() uint64 { return w.trailer.rows }

// Add writes a row. It does not keep the row.
func (w *Writer) Add(row *Row) error {
	w.content = appendContent(w.content[:0], row)
	p := place{offset: w.written, length: uint32(len(w.content)), checksum: crc32.Checksum(w.content, castagnoli)}
	if err := w.write(w.content); err != nil {
		return err
	}
	w.records = appendRecord(w.records, w.header.RecordSize, row, p)
	w.trailer.kinds |= 1 << row.Kind
	for i := range row.Steps {
		w.trailer.kinds |= 1 << row.Steps[i].Kind
	}
	if w.trailer.rows++; w.trailer.rows%chunkRows == 0 {
		return w.endChunk()
	}
	return nil
}

// endChunk writes the records of a chunk behind its contents.
func (w *Writer) endChunk() error {
	w.directory = binary.LittleEndian.AppendUint64(w.directory, w.written)
	err := w.write(w.records)
	w.records = w.records[:0]
	return err
}

// Close finishes the file with its flags and returns its SHA-256, in hex, and its size in bytes. It does not close dst.
func (w *Writer) Close(flags uint32) (sha string, size uint64, err error) {
	if len(w.records) > 0 {
		if err := w.endChunk(); err != nil {
			return "", 0, err
		}
	}
	w.trailer.directory, w.trailer.flags = w.written, flags
	tail := w.trailer.append(w.directory, crc32.Checksum(w.directory, castagnoli))
	if err := w.write(tail); err != nil {
		return "", 0, err
	}
	if err := w.out.Flush(); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(w.sum.Sum(nil)), w.written, nil
}
