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

// samplingPeriod is how often a tool's processes are sampled. A memory peak between two samples is not seen.
const samplingPeriod = 200 * time.Millisecond

// Command is how a tool is started.
type Command struct {
	Args []string `json:"args"`
	// Env are settings in addition to the environment of this program.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"-"`
}

// Usage is what all processes of a tool used together.
type Usage struct {
	// Seconds is how long the tool ran, including its start and its reports.
	Seconds float64 `json:"seconds"`
	// CPUSeconds is their total CPU time. LoadCPUSeconds is the part from the first request on: without the tool's
	// start, but with what it still had to read after the server was done, and with its evaluation.
	CPUSeconds     float64  `json:"cpu_s"`
	LoadCPUSeconds *float64 `json:"load_cpu_s"`
	// PeakBytes is their peak resident memory. Pages that several of them share count for each.
	PeakBytes int64 `json:"peak_rss_bytes"`
	Processes int   `json:"processes"`
}

// look is a sample of a tool's processes.
type look struct {
	at  int64 // CLOCK_MONOTONIC
	cpu float64
}

// errTooLong says that a tool was ended because it ran too long.
var errTooLong = errors.New("it was ended: it took longer than a run may")

// execute runs a tool on one core until it ends, with as many descriptors as the system allows. It kills the tool and
// its processes when ctx ends. Their output goes to out.
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
		// This includes children for which the tool waited.
		waited := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		usage.CPUSeconds = max(usage.CPUSeconds, waited.Seconds())
	}
	return usage, looks, err
}

// watch samples the processes until the tool has ended.
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
			<-over // how it ended is known
			return u, looks, errTooLong
		case <-tick.C:
		}
	}
}

// since returns the CPU time of a run from an instant on, or nil if the instant is outside the samples.
func (u Usage) since(looks []look, from int64) *float64 {
	before, ok := cpuAt(looks, from)
	if !ok {
		return nil
	}
	d := u.CPUSeconds - before
	return &d
}

// cpuAt returns the CPU time up to an instant, interpolated between two samples.
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

// Write implements io.Writer. It always takes all of p.
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
