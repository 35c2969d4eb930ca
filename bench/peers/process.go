package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// samplingPeriod is how often a tool's processes are looked at. A peak of memory between two looks is not seen.
const samplingPeriod = 200 * time.Millisecond

// Command is how a tool is started.
type Command struct {
	Args []string `json:"args"`
	// Env are settings beside the environment of this program.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"-"`
}

// Usage is what a tool's processes took, all of them together.
type Usage struct {
	// Seconds is how long the tool ran, its start and its reports included.
	Seconds float64 `json:"seconds"`
	// CPUSeconds is their CPU time in all, and LoadCPUSeconds that of it from the first request on: without the tool's
	// start, but with what it still had to read when the server was done, and with its evaluation.
	CPUSeconds     float64  `json:"cpu_s"`
	LoadCPUSeconds *float64 `json:"load_cpu_s"`
	// PeakBytes is the most memory that they had resident at one time. Pages that several of them share count for each.
	PeakBytes int64 `json:"peak_rss_bytes"`
	Processes int   `json:"processes"`
}

// look is what was seen of a tool's processes at one time.
type look struct {
	at  int64 // CLOCK_MONOTONIC
	cpu float64
}

// errTooLong says that a tool was ended because its time was over.
var errTooLong = errors.New("it was ended: it took longer than a run may")

// execute runs a tool on one core until it ends, with all descriptors that the system allows, and ends it and its
// processes when ctx is over. Its output goes to out.
func execute(ctx context.Context, core int, c Command, out io.Writer) (Usage, []look, error) {
	args := append([]string{"-c", `ulimit -n "$(ulimit -Hn)"; exec taskset -c "$0" "$@"`, fmt.Sprint(core)}, c.Args...)
	cmd := exec.Command("sh", args...) //nolint:noctx // its processes are ended together, below
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second // a process that outlives the tool may hold its output open
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return Usage{}, nil, err
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	usage, looks, err := watch(ctx, newTree(cmd.Process.Pid), over)
	usage.Seconds = time.Since(begin).Seconds()
	if cmd.ProcessState != nil {
		// of its children too, as far as it waited for them
		waited := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		usage.CPUSeconds = max(usage.CPUSeconds, waited.Seconds())
	}
	return usage, looks, err
}

// watch looks at the processes until the tool is over.
func watch(ctx context.Context, t *tree, over <-chan error) (Usage, []look, error) {
	var u Usage
	var looks []look
	tick := time.NewTicker(samplingPeriod)
	defer tick.Stop()
	for {
		now := t.look()
		looks = append(looks, look{at: monotonic(), cpu: now.cpu})
		u.CPUSeconds = max(u.CPUSeconds, now.cpu)
		u.PeakBytes = max(u.PeakBytes, now.resident)
		u.Processes = max(u.Processes, now.processes)
		select {
		case err := <-over:
			t.end()
			return u, looks, err
		case <-ctx.Done():
			t.end()
			_ = <-over // it was ended: how, is known
			return u, looks, errTooLong
		case <-tick.C:
		}
	}
}

// since returns the CPU time of a run from an instant on, nil if it is not within what was seen.
func (u Usage) since(looks []look, from int64) *float64 {
	before, ok := cpuAt(looks, from)
	if !ok {
		return nil
	}
	d := u.CPUSeconds - before
	return &d
}

// cpuAt returns the CPU time up to an instant. Between two looks the pace is taken as even.
func cpuAt(looks []look, at int64) (float64, bool) {
	for i := 1; i < len(looks); i++ {
		a, b := looks[i-1], looks[i]
		if a.at <= at && at <= b.at {
			return a.cpu + (b.cpu-a.cpu)*float64(at-a.at)/float64(max(1, b.at-a.at)), true
		}
	}
	return 0, false
}

// tail keeps the end of what is written to it, for messages.
type tail struct{ kept []byte }

// Write takes all of p.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if most := 4096; len(t.kept) > most {
		t.kept = bytes.Clone(t.kept[len(t.kept)-most:])
	}
	return len(p), nil
}

// last returns the last lines.
func (t *tail) last(lines int) string {
	all := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
