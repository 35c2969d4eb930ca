package dataset

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/spate-load/spate/workload/rows"
)

// records are the records of a CSV file as JSON objects, whose members have the names in the file's first record. A
// field in quotes may have line breaks. Fields are strings, but those of numbers.
type records struct {
	src     *limitedRecord
	csv     *csv.Reader
	names   []string // escaped for JSON
	numbers []bool
	text    []byte
}

// limitedRecord is the text of one record, which has a limit.
type limitedRecord struct {
	*bufio.Reader
	read int
}

// Read reads, or returns an error if the record does not end within maxReadItem bytes.
func (l *limitedRecord) Read(b []byte) (int, error) {
	if l.read > maxReadItem {
		return 0, errItemTooLong
	}
	n, err := l.Reader.Read(b)
	l.read += n
	return n, err
}

// newRecords returns the records of a CSV file as JSON objects. It reads the names of the columns. Columns named in
// numbers hold numbers.
func newRecords(src *bufio.Reader, numbers []string) (itemReader, error) {
	limited := &limitedRecord{Reader: src}
	r := &records{src: limited, csv: csv.NewReader(limited)}
	r.csv.ReuseRecord = true
	names, err := r.csv.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the first line, which must name the columns: %w", err)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("the first line names the column %.40q twice", name)
		}
		r.names = append(r.names, rows.Escape(name))
		r.numbers = append(r.numbers, slices.Contains(numbers, name))
	}
	return r, nil
}

// Unit returns "line".
func (r *records) Unit() string { return "line" }

// Next returns the next record. Its number is that of its first line.
func (r *records) Next() (item, error) {
	r.src.read = 0
	fields, err := r.csv.Read()
	var fault *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		line, _ := r.csv.FieldPos(0)
		return item{Number: uint64(line),
			Fault: fmt.Errorf("has %d fields, but there are %d columns", len(fields), len(r.names))}, nil
	case errors.As(err, &fault):
		return item{Number: uint64(fault.StartLine), Fault: fmt.Errorf("is not CSV: %w", fault.Err)}, nil
	case err != nil:
		return item{}, explainEOF(err)
	}
	line, _ := r.csv.FieldPos(0)
	it := item{Number: uint64(line)}
	r.text = append(r.text[:0], '{')
	for i, field := range fields {
		if !utf8.ValidString(field) {
			it.Fault = errors.New("is not UTF-8")
			return it, nil
		}
		if i > 0 {
			r.text = append(r.text, ',')
		}
		r.text = fmt.Appendf(r.text, `"%s":`, r.names[i])
		r.text = r.value(r.text, field, r.numbers[i])
	}
	r.text = append(r.text, '}')
	it.Text, it.TooLong = r.text, len(r.text) > maxUsed
	return it, nil
}

// value appends a field as a JSON value. An empty number is null.
func (r *records) value(dst []byte, field string, number bool) []byte {
	switch {
	case number && field == "":
		return append(dst, "null"...)
	case number && isNumber(field):
		return append(dst, field...)
	}
	return append(append(append(dst, '"'), rows.Escape(field)...), '"')
}

// isNumber reports whether a text is a JSON number.
func isNumber(text string) bool {
	return (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text))
}
