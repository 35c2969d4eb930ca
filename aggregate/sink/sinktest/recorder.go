// Package sinktest helps to test sinks: it has sample points, the suite that every sink must pass, and a sink in
// memory. Only tests import it.
package sinktest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/spate-load/spate/aggregate/sink"
)

// Recorder is a sink that keeps rows as a database does. The zero value is ready for use.
type Recorder struct {
	mu   sync.Mutex
	rows map[string]sink.Row
}

var _ sink.Sink = (*Recorder)(nil)

// Put keeps a point. Fields replace those of rows with the same name.
func (r *Recorder) Put(p sink.Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows = make(map[string]sink.Row)
	}
	for _, row := range p.Rows() {
		r.rows[Name(row)] = merge(r.rows[Name(row)], row)
	}
}

// Close does nothing.
func (r *Recorder) Close(context.Context) error { return nil }

// Rows returns the rows that a database would contain.
func (r *Recorder) Rows() []sink.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]sink.Row, 0, len(r.rows))
	for _, row := range r.rows {
		rows = append(rows, row)
	}
	return rows
}

// Name returns what identifies a row: measurement, tags and time.
func Name(row sink.Row) string {
	var name strings.Builder
	name.WriteString(row.Measurement)
	for _, tag := range row.Tags {
		name.WriteString("\x00" + tag.Key + "\x00" + tag.Value)
	}
	name.WriteString("\x00" + row.Time.UTC().String())
	return name.String()
}

// merge returns the newer row with those fields of the older one that it lacks.
func merge(older, newer sink.Row) sink.Row {
	for _, field := range older.Fields {
		same := func(f sink.Field) bool { return f.Key == field.Key }
		if !slices.ContainsFunc(newer.Fields, same) {
			newer.Fields = append(newer.Fields, field)
		}
	}
	return newer
}
