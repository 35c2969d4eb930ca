package coordinatorcmd

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// Database are the settings of one kind of database.
type Database interface {
	// Kind is the kind of the database, with which its flags begin.
	Kind() string
	// Given reports whether there is a database to write to.
	Given() bool
	// Validate returns an error if settings do not go together.
	Validate() error
	// Open resolves settings that Validate has checked. The caller closes the database.
	Open(logger *slog.Logger) (delivery.Database, error)
}

// Sinks says where merged results are written during a run. The zero value writes nowhere.
type Sinks struct {
	Influx Influx
	OTLP   OTLP
}

// all returns the settings of all kinds of databases.
func (s *Sinks) all() []Database { return []Database{&s.Influx, &s.OTLP} }

// URLFlags returns the flags that say where merged results are written.
func (s *Sinks) URLFlags() (names []string) {
	for _, d := range s.all() {
		names = append(names, d.Kind()+"-url")
	}
	return names
}

// Validate returns an error if settings do not go together.
func (s *Sinks) Validate() error {
	var errs []error
	for _, d := range s.all() {
		errs = append(errs, d.Validate())
	}
	return errors.Join(errs...)
}

// Opener checks the settings and returns a function that opens a run's sink, which writes to all databases. The
// function is nil if nothing will be written. A database that does not answer, or that refuses, is logged and is not an
// error: it affects no result, and it may work again when the run has points to write. Databases stay open until the
// process ends.
func (s *Sinks) Opener(ctx context.Context, logger *slog.Logger) (func(runDir string) (sink.Sink, error), error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var databases []delivery.Database
	for _, d := range s.all() {
		if !d.Given() {
			continue
		}
		db, err := d.Open(logger)
		if err != nil {
			return nil, err
		}
		if err := db.Check(ctx); err != nil {
			logger.Warn("the database does not take points now; the run continues and they are sent later",
				"database", db.Name(), "error", err)
		}
		databases = append(databases, db)
	}
	if len(databases) == 0 {
		return nil, nil //nolint:nilnil // nothing will be written
	}
	return func(runDir string) (sink.Sink, error) {
		replay := func(emit func([]sink.Row) error) (bool, error) {
			return points.ReplayEnded(filepath.Join(runDir, ledger.File), emit)
		}
		return delivery.Open(delivery.Config{RunDir: runDir, Replay: replay, Log: logger}, databases...)
	}, nil
}
