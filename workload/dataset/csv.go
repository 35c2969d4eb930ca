package dataset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/workload/rows"
)

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

// table reads a trace of lengths in CSV. columns are the names of the columns with the time, the tokens of the prompt
// and those of the answer. They may be anywhere, and in any case.
func (b *builder) table(form string, columns []string, timeOf func(name string, value []byte) (int64, error)) {
	b.header.RecordSize = rows.ShortRecord
	var places [3]int
	var others []string // columns that are not used
	b.openItems = func(s *itemSource) (itemReader, error) {
		all, err := newRecords(s.Reader, nil)
		if err != nil || all.names == nil {
			return all, err
		}
		all.plain, others = true, slices.Clone(all.names)
		for i, column := range columns {
			is := func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), column) }
			if places[i] = slices.IndexFunc(all.names, is); places[i] < 0 {
				return nil, fmt.Errorf("a trace of the form %s needs the columns %s, but the first line is %.200q", form,
					strings.Join(columns, ", "), strings.Join(all.names, ","))
			}
			others = slices.DeleteFunc(others, is)
		}
		return all, nil
	}
	b.trace(func(it item) (t timedRow, err error) {
		var values [3][]byte
		for i, place := range places {
			if values[i] = []byte(strings.TrimSpace(it.Fields[place])); len(values[i]) == 0 {
				return t, unusable("has no %s", columns[i])
			}
		}
		if t.at, err = timeOf(columns[0], values[0]); err != nil {
			return t, err
		}
		for i, length := range []*uint32{&t.isl, &t.osl} {
			if *length, err = parseLength(columns[i+1], values[i+1]); err != nil {
				return t, err
			}
		}
		for _, name := range others {
			b.skipped.Unused.note(name)
		}
		return t, checkTokens(t)
	}, func(timedRow, *rows.Row) error { return nil })
}
