package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Run is one run of a tool.
type Run struct {
	Tool    string  `json:"tool"`
	Round   int     `json:"round"`
	Load    Load    `json:"load"`
	Command Command `json:"command"`
	// LoadAverage is that of the machine over the previous minute, which shows whether others were at work there. 0:
	// not known.
	LoadAverage float64 `json:"load_average"`
	Usage       Usage   `json:"usage"`
	Truth       Truth   `json:"truth"`
	Report      Report  `json:"report"`
	// Failure says why there are no numbers. Empty: there are.
	Failure string `json:"failure,omitempty"`
}

// bench is what all runs have in common.
type bench struct {
	spate, home, work      string
	serverCore, clientCore int
	timeout                time.Duration
}

// run makes one run. It returns an error only if the server fails; a tool's failure is recorded in the run.
func (b *bench) run(ctx context.Context, t Tool, round int, l Load) (Run, error) {
	r := Run{Tool: t.Name, Round: round, Load: l, LoadAverage: loadAverage()}
	dir := filepath.Join(b.work, fmt.Sprintf("%s-%d-%s", l.name(), round, t.Name))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return r, err
	}
	s, err := startServer(ctx, b.spate, b.serverCore, l, dir)
	if err != nil {
		return r, err
	}
	job := Job{Load: l, URL: s.url, Home: b.home, Dir: dir, Spate: b.spate}
	looks, err := b.start(ctx, t, job, &r)
	s.stop()
	if err == nil {
		err = r.judge(t, job, s, looks)
	}
	if err != nil {
		r.Failure = err.Error()
	}
	return r, ctx.Err()
}

// start runs the tool.
func (b *bench) start(ctx context.Context, t Tool, job Job, r *Run) ([]look, error) {
	c, err := t.Start(job)
	if err != nil {
		return nil, err
	}
	c.Dir, r.Command = job.Dir, c
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	said := &tail{}
	usage, looks, err := execute(ctx, b.clientCore, c, said)
	r.Usage = usage
	if errors.Is(err, errTooLong) {
		return nil, fmt.Errorf("no result within %v", b.timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said.last(3))
	}
	return looks, nil
}

// judge reads what the server did and what the tool reports.
func (r *Run) judge(t Tool, job Job, s *server, looks []look) error {
	var err error
	if r.Truth, err = s.readTruthFile(r.Load); err != nil {
		return err
	}
	if r.Report, err = t.Read(job.Dir); err != nil {
		return err
	}
	r.Usage.LoadCPUSeconds = r.Usage.since(looks, r.Truth.From)
	if r.Report.Requests != r.Load.Requests || r.Truth.Requests != r.Load.Requests {
		return fmt.Errorf("of %d requests the tool reports %d and %d failed; the server answered %d in whole",
			r.Load.Requests, r.Report.Requests, r.Report.Failed, r.Truth.Requests)
	}
	return nil
}

// loadAverage returns the machine's load over the last minute.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	average, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return average
}
