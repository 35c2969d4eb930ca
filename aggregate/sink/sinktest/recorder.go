// Package sinktest helps to test sinks and their callers: it has a sink that records calls, and the suite that every
// sink must pass. Only tests import it.
package sinktest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/spate-load/spate/aggregate/sink"
)

// Recorder is a sink that records what it is given. The zero value is ready for use.
type Recorder struct {
	mu      sync.Mutex
	windows []sink.WindowPoint
	stages  []sink.StagePoint
	events  []sink.EventPoint
	rows    map[string]sink.Row
	closed  bool
}

var _ sink.Sink = (*Recorder)(nil)

// Window records a window.
func (r *Recorder) Window(p sink.WindowPoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows = append(r.windows, p)
	r.keep(p.Rows())
}

// Stage records a stage's result.
func (r *Recorder) Stage(p sink.StagePoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stages = append(r.stages, p)
	r.keep(p.Rows())
}

// Event records an event.
func (r *Recorder) Event(p sink.EventPoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, p)
	r.keep(p.Rows())
}

// Agent records the state of an agent.
func (r *Recorder) Agent(p sink.AgentPoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(p.Rows())
}

// Server records a value of a server's metrics.
func (r *Recorder) Server(p sink.ServerPoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(p.Rows())
}

// keep replaces fields of rows with the same name, as a database does. The caller must hold the lock.
func (r *Recorder) keep(rows []sink.Row) {
	if r.rows == nil {
		r.rows = make(map[string]sink.Row)
	}
	for _, row := range rows {
		r.rows[Name(row)] = merge(r.rows[Name(row)], row)
	}
}

// Close records that it was called.
func (r *Recorder) Close(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// Closed reports whether Close was called.
func (r *Recorder) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Windows returns the windows in the order of the calls.
func (r *Recorder) Windows() []sink.WindowPoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.windows)
}

// Stages returns the stages' results in the order of the calls.
func (r *Recorder) Stages() []sink.StagePoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.stages)
}

// Events returns the events in the order of the calls.
func (r *Recorder) Events() []sink.EventPoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

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
