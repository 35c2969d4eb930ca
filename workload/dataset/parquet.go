package dataset

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// sizedReader is a file that is not read as a stream.
type sizedReader interface {
	io.ReaderAt
	Size() int64
}

// parquetRows are the rows of a Parquet file as JSON objects.
type parquetRows struct {
	reader *parquet.GenericReader[any]
	row    [1]parquet.Row
	number uint64
	text   bytes.Buffer
	read   uint64
	room   room
}

// newParquetRows returns the rows of a Parquet file as JSON objects, of at most maxBytes bytes together. src must have
// a size and be readable at any offset.
func newParquetRows(src io.Reader, maxBytes uint64) (all itemReader, err error) {
	file, ok := src.(sizedReader)
	if !ok || file.Size() == 0 {
		return nil, errors.New("a Parquet file is read from its end: name a file that is not a pipe and not compressed")
	}
	defer explainParquet(&err)
	if err := checkFooter(file); err != nil {
		return nil, fmt.Errorf("not a valid Parquet file: %w", err)
	}
	opened, err := parquet.OpenFile(file, file.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, fmt.Errorf("not a valid Parquet file: %w", err)
	}
	r := room{limit: maxBytes, packed: func() uint64 { return uint64(file.Size()) }}
	if err := checkColumns(opened.Metadata(), r); err != nil {
		return nil, err
	}
	return &parquetRows{reader: parquet.NewGenericReader[any](opened), room: r}, nil
}

// checkFooter returns an error unless the length of the footer, which stands before the last four bytes, is less than
// the file's. The library allocates whatever length it reads, up to 4 GiB.
func checkFooter(file sizedReader) error {
	const ends = 8
	var end [ends]byte
	if _, err := file.ReadAt(end[:], file.Size()-ends); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n := binary.LittleEndian.Uint32(end[:]); int64(n) > file.Size()-ends {
		return fmt.Errorf("its footer has %d bytes, the file %d", n, file.Size())
	}
	return nil
}

// maxValues is how many values a column of a group of rows may have, and four for each of its bytes: the library holds
// those of a row in memory, and a dictionary makes millions of a few bytes. Writers make groups of a million rows.
const maxValues = 16 << 20

// checkColumns returns an error if a column has more values than that, or if all columns, uncompressed, exceed the
// room: the library holds a page in memory.
func checkColumns(m *format.FileMetaData, r room) error {
	size := uint64(0)
	for g, group := range m.RowGroups {
		for _, c := range group.Columns {
			d := c.MetaData
			size += uint64(max(0, d.TotalUncompressedSize))
			if d.NumValues > maxValues+4*d.TotalCompressedSize {
				return fmt.Errorf("column %s of its group of rows %d has %d values in %d bytes, as in a decompression "+
					"bomb: write the file in smaller groups of rows if it is genuine", strings.Join(d.PathInSchema, "."),
					g+1, d.NumValues, d.TotalCompressedSize)
			}
		}
	}
	return r.check(size)
}

// explainParquet makes an error of a panic: the library panics at some damaged files.
func explainParquet(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("not a valid Parquet file: %v", fault)
	}
}

// Unit returns "row".
func (p *parquetRows) Unit() string { return "row" }

// Next returns the next row.
func (p *parquetRows) Next() (it item, err error) {
	defer explainParquet(&err)
	it.Number = p.number + 1
	n, err := p.reader.ReadRows(p.row[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return it, io.EOF
	case n == 0:
		return it, fmt.Errorf("row %d: %w", it.Number, err)
	}
	p.number++
	if size := sizeOf(p.row[0]); size > maxUsed { // it is not copied
		it.TooLong = true
		p.read += size
		return it, p.room.check(p.read)
	}
	var row any
	if err := p.reader.Schema().Reconstruct(&row, p.row[0]); err != nil {
		return it, fmt.Errorf("row %d: %w", it.Number, err)
	}
	p.text.Reset()
	encoder := json.NewEncoder(&p.text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(row); err != nil {
		it.Fault = fmt.Errorf("cannot be written as JSON: %w", err)
		return it, nil
	}
	it.Text, it.TooLong = p.text.Bytes(), p.text.Len() > maxUsed
	p.read += uint64(p.text.Len())
	return it, p.room.check(p.read)
}

// sizeOf returns how many bytes the values of a row have, at least one each.
func sizeOf(row parquet.Row) (size uint64) {
	for _, v := range row {
		size++
		if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			size += uint64(len(v.ByteArray()))
		}
	}
	return size
}
