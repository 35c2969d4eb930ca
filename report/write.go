// Package report makes the files and tables that people read from the ledger of a run.
//
// Everything is made from the ledger alone, so it can be made again at any time, byte for byte the same. Nothing
// depends on a clock, the environment or the order of arrival. Package aggregate calculates the numbers; this package
// only formats them. The command calls Write when a run has ended or a person asks for a report, and Table to show the
// result in a terminal.
package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/headline"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/report/requests"
)

// Options configure how files are written.
type Options struct {
	// Thresholds are conditions on all stages, besides those of the plan.
	Thresholds []string
	// Each takes the files instead of the run directory. Nil: they are written there.
	Each func(name string, write func(io.Writer) error) error

	baseline *results.Result // that of BaselineFile; nil: there is none
}

// Write makes all derived files of a run directory from its ledger, and replaces the existing ones. Each file is
// replaced as a whole. Write reads nothing but the ledger and BaselineFile, if there is one. The error may wrap
// ledger.ErrLocked or ledger.ErrForeign. If the ledger is damaged, Write writes nothing, and the error wraps a
// ledger.DamageError. The result is that of results.json. It is nil if the ledger could not be read or merged; an error
// with a result is about writing.
func Write(dir string, o Options) (result *results.Result, err error) {
	ledger, err := ledger.OpenReadOnly(filepath.Join(dir, ledger.File))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	if o.baseline, err = keptBaseline(dir); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	each := o.Each
	if each == nil {
		each = func(name string, write func(io.Writer) error) error {
			return files.ReplaceBy(filepath.Join(dir, name), write)
		}
	}
	result, _, made, err := filesOf(ledger, o, func(f file) error { return each(f.name, f.write) })
	var failed error // the other files are written even if the rows cannot be
	for i := 0; i < len(made) && failed == nil; i++ {
		failed = each(made[i].name, made[i].write)
	}
	if err = errors.Join(err, failed); err != nil {
		return result, fmt.Errorf("report: %w", err)
	}
	return result, nil
}

// file is one derived file.
type file struct {
	name  string
	write func(io.Writer) error
}

// filesOf merges the ledger and returns the result, what its page needs, and the files to write. That of the request
// rows, if there is one, takes longest: it is passed to rows, while the result gets what else is read from the rows.
func filesOf(
	ledger *ledger.Ledger, o Options, rows func(file) error,
) (result *results.Result, in page.Input, made []file, err error) {
	run, err := ledger.Run()
	if err != nil {
		return nil, in, nil, err
	}
	var log bytes.Buffer
	in = page.Input{Plan: run.GetPlanYaml()}
	result, err = results.Visit(ledger, results.Visitor{
		Start: func(*spatev1.StageRecord) merge.Watch {
			in.Recordings = append(in.Recordings, page.NewRecording())
			return in.Recordings[len(in.Recordings)-1].Watch
		},
		End: func(s *merge.Stage, rec *spatev1.StageRecord, r results.StageResult) error {
			start := max(rec.GetStartTime().AsTime().Sub(run.GetBeginTime().AsTime()).Seconds(), 0)
			in.Recordings[len(in.Recordings)-1].End(s, rec, start)
			return logStage(&log, s, r, start)
		},
	})
	if err != nil {
		return nil, in, nil, err
	}
	write, err := requests.Writer(ledger, run, result)
	if err != nil {
		return nil, in, nil, err
	}
	var beside errgroup.Group
	beside.Go(func() error { return tell(ledger, run, result, o, &in) })
	if write != nil {
		err = rows(file{"requests." + run.GetRecords(), write})
	}
	if told := beside.Wait(); told != nil {
		return nil, in, nil, told
	}
	return result, in, []file{
		{"plan.yaml", contents(run.GetPlanYaml())},
		{results.File, func(w io.Writer) error { return writeResults(w, result) }},
		{"report.html", func(w io.Writer) error {
			in, err := pageOf(result, in)
			if err != nil {
				return err
			}
			return page.Write(w, in)
		}},
		{"report.md", func(w io.Writer) error { return writeMarkdown(w, result) }},
		{"vllm.txt", func(w io.Writer) error { return writeVLLM(w, result) }},
		{"histograms.hlog", contents(append(logHeader(run), log.Bytes()...))},
	}, err
}

// tell adds to the result of a run what follows from its rows and thresholds, and to the page what happened.
func tell(l *ledger.Ledger, run *spatev1.RunRecord, r *results.Result, o Options, in *page.Input) error {
	if err := requests.AddExamples(l, r); err != nil {
		return err
	}
	if err := judged(r, run.GetPlanYaml(), o); err != nil {
		return err
	}
	rows, err := runfiles.OfLedger(l, r)
	if err != nil {
		return err
	}
	if r.Headline, in.Changes, err = headline.Of(rows); err != nil {
		return err
	}
	in.Events, err = eventsOf(l, run)
	return err
}

// Figure writes a figure of a run directory, from its ledger, whose SHA-256 ends the caption.
func Figure(w io.Writer, dir string, f page.Figure) (err error) {
	path := filepath.Join(dir, ledger.File)
	l, err := ledger.OpenReadOnly(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer content.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return err
	}
	f.Source = fmt.Sprintf("ledger.db %.6x.", sum.Sum(nil))
	result, in, _, err := filesOf(l, Options{}, func(file) error { return nil })
	if err != nil {
		return err
	}
	if in, err = pageOf(result, in); err != nil {
		return err
	}
	return f.Write(w, in)
}

// contents returns a function that writes data.
func contents(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// writeResults writes results.json.
func writeResults(w io.Writer, r *results.Result) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
