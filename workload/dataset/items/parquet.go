package items

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// sizedReader is a file that is not read as a stream.
type sizedReader interface {
	io.ReaderAt
	Size() int64
}

// parquetRows are the rows of a Parquet file as JSON objects.
type parquetRows struct {
	reader   *parquet.GenericReader[any]
	row      [1]any
	number   uint64
	text     bytes.Buffer
	read     uint64
	maxBytes uint64
}

// NewParquetRows returns the rows of a Parquet file as JSON objects, of at most maxBytes bytes together. src must have
// a size and be readable at any offset.
func NewParquetRows(src io.Reader, maxBytes uint64) (all Reader, err error) {
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
	return &parquetRows{reader: parquet.NewGenericReader[any](opened), maxBytes: maxBytes}, nil
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

// explainParquet makes an error of a panic: the library panics at some damaged files.
func explainParquet(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("not a valid Parquet file: %v", fault)
	}
}

// Unit returns "row".
func (p *parquetRows) Unit() string { return "row" }

// Next returns the next row.
func (p *parquetRows) Next() (it Item, err error) {
	defer explainParquet(&err)
	it.Number = p.number + 1
	p.row[0] = nil
	n, err := p.reader.Read(p.row[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return it, io.EOF
	case n == 0:
		return it, fmt.Errorf("row %d: %w", it.Number, err)
	}
	p.number++
	p.text.Reset()
	encoder := json.NewEncoder(&p.text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(p.row[0]); err != nil {
		it.Fault = fmt.Errorf("cannot be written as JSON: %w", err)
		return it, nil
	}
	it.Text, it.TooLong = p.text.Bytes(), p.text.Len() > MaxUsed
	if p.read += uint64(p.text.Len()); p.read > p.maxBytes {
		return it, errTooMuchText(p.maxBytes)
	}
	return it, nil
}
