package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// table is a trace in CSV: a line of column names, then one line per request. Fields may be quoted, but may not contain
// line breaks.
type table struct {
	form    string
	columns [3]string // time, prompt tokens, answer tokens
	time    func(name string, value []byte) (int64, error)
	places  [3]int
	fields  [][]byte
	others  []string // columns that are not used
	unused  *Unused
}

func init() {
	register("burstgpt", Source{Help: "a trace in BurstGPT's form", Example: "CSV of BurstGPT.",
		build: func(b *builder, _ *spatev1.Workload, _ Options) { b.table(newBurstGPT()) }})
	register("azure", Source{Help: "a trace in the form of the Azure LLM inference traces",
		Example: "CSV with TIMESTAMP, ContextTokens, GeneratedTokens.",
		build:   func(b *builder, _ *spatev1.Workload, _ Options) { b.table(newAzure()) }})
}

// newBurstGPT reads BurstGPT's form, with times in seconds. Rows without an answer are failed requests and are left
// out. There may be more columns, as in the later releases.
func newBurstGPT() *table {
	return &table{
		form:    "BurstGPT",
		columns: [3]string{"Timestamp", "Request tokens", "Response tokens"},
		time:    func(name string, value []byte) (int64, error) { return parseTime(name, value, 1e9) },
	}
}

// newAzure reads the form of the Azure LLM inference traces of 2023 (2023-11-16 18:15:46.6805900) and of 2024
// (2024-05-10 00:00:00.009930+00:00).
func newAzure() *table {
	return &table{form: "Azure", columns: [3]string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, time: parseDateTime}
}

// parseDateTime reads a date and a time of day, in UTC unless a zone follows.
func parseDateTime(name string, value []byte) (int64, error) {
	text, layout := strings.Replace(string(value), "T", " ", 1), "2006-01-02 15:04:05"
	if len(text) > len(layout) && strings.ContainsAny(text[len(layout):], "+-Z") {
		layout += "Z07:00"
	}
	t, err := time.Parse(layout, text)
	switch {
	case err != nil:
		return 0, unusable("%s is %.40q, not a time like 2023-11-16 18:15:46.6805900", name, value)
	case t.Year() < 1700 || t.Year() > 2250:
		return 0, unusable("%s is %s: the year must be from 1700 to 2250", name, value)
	}
	return t.UnixNano(), nil
}

// header finds the columns by their names, in any order.
func (c *table) header(text []byte) error {
	if err := c.split(text); err != nil {
		return fmt.Errorf("the first line %w", err)
	}
	for _, f := range c.fields {
		name := string(bytes.TrimSpace(f))
		if !slices.ContainsFunc(c.columns[:], func(known string) bool { return strings.EqualFold(known, name) }) {
			c.others = append(c.others, name)
		}
	}
	for i, name := range c.columns {
		c.places[i] = slices.IndexFunc(c.fields,
			func(f []byte) bool { return strings.EqualFold(string(bytes.TrimSpace(f)), name) })
		if c.places[i] < 0 {
			return fmt.Errorf("a trace of the form %s needs the columns %s, but the first line is %.200q", c.form,
				strings.Join(c.columns[:], ", "), text)
		}
	}
	return nil
}

// parse reads a row.
func (c *table) parse(text []byte) (t timedRow, err error) {
	if err := c.split(text); err != nil {
		return t, err
	}
	var values [3][]byte
	for i, place := range c.places {
		if place >= len(c.fields) {
			return t, unusable("has %d columns, but %s is column %d", len(c.fields), c.columns[i], place+1)
		}
		if values[i] = bytes.TrimSpace(c.fields[place]); len(values[i]) == 0 {
			return t, unusable("has no %s", c.columns[i])
		}
	}
	if t.at, err = c.time(c.columns[0], values[0]); err != nil {
		return t, err
	}
	if t.isl, err = parseLength(c.columns[1], values[1]); err != nil {
		return t, err
	}
	if t.osl, err = parseLength(c.columns[2], values[2]); err != nil {
		return t, err
	}
	for _, name := range c.others {
		c.unused.note(name)
	}
	return t, checkTokens(t)
}

// split splits a line into its fields and removes quotes.
func (c *table) split(text []byte) error {
	c.fields = c.fields[:0]
	for {
		if bytes.HasPrefix(text, []byte{'"'}) {
			end := bytes.IndexByte(text[1:], '"')
			if end < 0 {
				return unusable("has an opening quote without a closing quote")
			}
			c.fields = append(c.fields, text[1:1+end])
			if text = text[end+2:]; len(text) > 0 && text[0] != ',' {
				return unusable("has text after a closing quote")
			}
			if len(text) == 0 {
				return nil
			}
			text = text[1:]
			continue
		}
		end := bytes.IndexByte(text, ',')
		if end < 0 {
			c.fields = append(c.fields, text)
			return nil
		}
		c.fields = append(c.fields, text[:end])
		text = text[end+1:]
	}
}

// table reads a trace of lengths.
func (b *builder) table(t *table) {
	t.unused = &b.skipped.Unused
	b.header.RecordSize = rows.ShortRecord
	b.openItems = func(s *itemSource) (itemReader, error) {
		all := newLines(s.Reader)
		first, err := all.Next()
		switch {
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return all, nil
		case err != nil:
			return all, err
		}
		return all, t.header(first.Text)
	}
	b.trace(t.parse, func(timedRow, *rows.Row) error { return nil })
}
