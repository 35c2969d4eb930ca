// Package delivery passes points on to databases: several databases a run, each with its own queue, back-off, counts of
// lost points and end.
//
// A database is what differs between sinks: its encoding and its send (Database). A Sink writes during a run. Its queue
// is in memory and bounded, so that a database that is slow, down or restarting does not delay the run. Points that do
// not fit, or that a killed coordinator had not sent, are written from the ledger when the run has ended. A Writer
// writes the points of a run that has ended, and waits for the database instead.
package delivery

import (
	"context"
	"fmt"

	"github.com/spate-load/spate/aggregate/sink"
)

// Database is a database that points are written to. Its methods may be called concurrently, except Close.
type Database interface {
	// Kind identifies the kind of database in flags, commands and file names: "influx".
	Kind() string
	// Name is the name of the kind in messages: "InfluxDB".
	Name() string
	// Place is where points are, in messages: "http://localhost:8086, bucket spate". It contains no secret.
	Place() string
	// Stores reports whether the database stores a field of a measurement's rows. Other fields are not queued.
	Stores(measurement string, field *sink.Field) bool
	// Append appends the encoding of a row to dst. Encodings can be concatenated. It appends nothing for a row that has
	// nothing to store. The row may have fields that the database does not store. An error means that the row cannot be
	// expressed.
	Append(dst []byte, row *sink.Row) ([]byte, error)
	// Send sends encoded rows once, in one request, and blocks until the database has answered or a time-out. The error
	// wraps a RefusedError if sending the same again is useless. Otherwise the rows are sent again. Errors say what a
	// person can do, and contain no secret.
	Send(ctx context.Context, body []byte) error
	// Check returns an error if points would not be taken. It writes no points, and blocks for one time-out at most.
	Check(ctx context.Context) error
	// Close closes the connection.
	Close()
}

// RefusedError means that a database will never take a request as it is, because of at least one row.
type RefusedError struct {
	// Points is how many points the database dropped, if it says so and took the others. 0: it does not say. The others
	// are then sent again without the refused ones.
	Points int
	// Err is what the database said.
	Err error
}

// Error returns what the database said.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns what the database said.
func (e *RefusedError) Unwrap() error { return e.Err }

// UndeliveredError counts the points that a database did not get.
type UndeliveredError struct {
	// Kind and Name are those of the database.
	Kind, Name string
	// RunDir is the run's directory, whose ledger has the points.
	RunDir string
	// Unsent is the number of points that were not sent: the database did not take them in time, or the queue was full.
	Unsent int
	// Refused is the number of points that the database will never take.
	Refused int
	// Err is why. May be nil.
	Err error
}

// Error returns a message that says what to do.
func (u *UndeliveredError) Error() string {
	text := u.Name + " is incomplete:"
	if u.Unsent > 0 {
		text += fmt.Sprintf(" %d points were not sent;", u.Unsent)
	}
	if u.Refused > 0 {
		text += fmt.Sprintf(" %d points were refused;", u.Refused)
	}
	text += " the ledger has every number"
	if u.Unsent > 0 {
		text += fmt.Sprintf(", and `spate runs export %s` writes them", u.RunDir)
	}
	if u.Err != nil {
		text += ": " + u.Err.Error()
	}
	return text
}

// Unwrap returns why.
func (u *UndeliveredError) Unwrap() error { return u.Err }
