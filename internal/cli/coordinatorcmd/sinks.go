package coordinatorcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
)

// Sinks says where merged results are written during a run. The zero value writes nowhere.
type Sinks struct {
	URLs []string `flag:"sink" help:"write merged results to this database as they arrive: <URL> such as influx+http://HOST:8086?bucket=B&org=O or otlp+http://HOST:4318; token=env:NAME or file:PATH, ca=FILE, insecure=true, header=NAME=env:KEY (otlp); one of each kind"`
}

// Validate returns an error for each URL that is wrong.
func (s *Sinks) Validate() error {
	_, err := s.servers()
	return err
}

func (s *Sinks) servers() (all []*server, err error) {
	var errs []error
	for _, text := range s.URLs {
		one, err := parseSink(text)
		if err == nil && slices.ContainsFunc(all, func(other *server) bool { return other.kind == one.kind }) {
			err = fmt.Errorf("%s+%s: there is one of this kind already", one.kind, one.url)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--sink: %w", err))
			continue
		}
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}

// Open opens all databases. The caller closes them.
func (s *Sinks) Open(logger *slog.Logger) ([]delivery.Database, error) {
	servers, err := s.servers()
	if err != nil {
		return nil, err
	}
	var databases []delivery.Database
	for _, one := range servers {
		db, err := one.open(logger)
		if err != nil {
			return nil, err
		}
		databases = append(databases, db)
	}
	return databases, nil
}

// Opener checks the settings and returns a function that opens a run's sink, which writes to all databases. The
// function is nil if nothing will be written. A database that does not answer, or that refuses, is logged and is not an
// error: it affects no result, and it may work again when the run has points to write. Databases stay open until the
// process ends.
func (s *Sinks) Opener(ctx context.Context, logger *slog.Logger) (func(runDir string) (sink.Sink, error), error) {
	databases, err := s.Open(logger)
	if err != nil || len(databases) == 0 {
		return nil, err
	}
	told := map[string]string{}
	for _, db := range databases {
		if err := db.Check(ctx); err != nil {
			told[db.Kind()] = err.Error()
			logger.Warn("the database does not take points now; the run continues and they are sent later",
				"database", db.Name(), "error", err)
		}
	}
	var first sync.Once // later runs of a coordinator say again what fails
	return func(runDir string) (sink.Sink, error) {
		replay := func(emit func([]sink.Row) error) (bool, error) {
			return points.ReplayEnded(filepath.Join(runDir, ledger.File), emit)
		}
		config := delivery.Config{RunDir: runDir, Replay: replay, Log: logger}
		first.Do(func() { config.Told = told })
		return delivery.Open(config, databases...)
	}, nil
}
