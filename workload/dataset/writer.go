package dataset

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"io"
)

// writer writes a rows file in one pass. It holds the records of one chunk, and 8 bytes for each earlier chunk.
type writer struct {
	out       *bufio.Writer
	sum       hash.Hash
	header    header
	trailer   trailer
	written   uint64
	records   []byte
	directory []byte
	content   []byte
}

// newWriter starts a rows file.
func newWriter(dst io.Writer, h header, flags uint32) (*writer, error) {
	sum := sha256.New()
	w := &writer{out: bufio.NewWriterSize(io.MultiWriter(dst, sum), 1<<18), sum: sum, header: h,
		trailer: trailer{flags: flags}}
	return w, w.write(h.append(nil))
}

// write writes bytes and counts them.
func (w *writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.written += uint64(n)
	return err
}

// add writes a row.
func (w *writer) add(row *Row) error {
	w.content = appendContent(w.content[:0], row)
	p := place{offset: w.written, length: uint32(len(w.content)), checksum: crc32.Checksum(w.content, castagnoli)}
	if err := w.write(w.content); err != nil {
		return err
	}
	w.records = appendRecord(w.records, w.header.recordSize, row, p)
	w.trailer.kinds |= 1 << row.Kind
	if w.trailer.rows++; w.trailer.rows%chunkRows == 0 {
		return w.endChunk()
	}
	return nil
}

// endChunk writes the records of a chunk behind its contents.
func (w *writer) endChunk() error {
	w.directory = binary.LittleEndian.AppendUint64(w.directory, w.written)
	err := w.write(w.records)
	w.records = w.records[:0]
	return err
}

// close finishes the file and returns its SHA-256 and size. It does not close dst.
func (w *writer) close() (sha string, size uint64, err error) {
	if len(w.records) > 0 {
		if err := w.endChunk(); err != nil {
			return "", 0, err
		}
	}
	w.trailer.directory = w.written
	tail := w.trailer.append(w.directory, crc32.Checksum(w.directory, castagnoli))
	if err := w.write(tail); err != nil {
		return "", 0, err
	}
	if err := w.out.Flush(); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(w.sum.Sum(nil)), w.written, nil
}
