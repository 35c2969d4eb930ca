package rows

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"io"
)

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
