package calibration

import (
	"fmt"
	"strings"
	"time"
)

// Rules say up to where a load is safe.
type Rules struct {
	// Error is the largest p99 of the timestamps' error.
	Error time.Duration
	// Lateness is the largest p99 of how late requests start.
	Lateness time.Duration
}

// DefaultRules are those of `spate calibrate`.
var DefaultRules = Rules{defaultError, defaultLateness}

const (
	// defaultError is 1 % of a token time of 10 ms, the shortest that is required of deployments under load: its
	// reported value is right to the second digit. It is far above the error of kernel timestamps (a few microseconds),
	// and far below the error of a program's own clock reading when the program is late.
	defaultError = 100 * time.Microsecond
	// defaultLateness is how late a start may be. A server that batches accepts requests once a step, of 5 ms and more,
	// so within a millisecond it sees the requested schedule.
	defaultLateness = time.Millisecond
	// maxCoalesced is the largest part of frames that came in one read with the previous frame: the kernel keeps only
	// one time for both.
	maxCoalesced = 0.001
	// minAchieved is the smallest part of the requested load that must be reached.
	minAchieved = 0.99
	// maxFailed is the largest part of requests that may fail.
	maxFailed = 0.001
	// fullCore is the utilization from which the agent's cores count as used up. The rest is lost when another process
	// takes turns with it.
	fullCore = 0.9
)

// Row is the measurement of one load.
type Row struct {
	Load
	// Asked and Achieved are in frames per second, or in requests per second for a load of starts.
	Asked    float64
	Achieved float64
	// Window is how long the load was measured. 0: it was refused.
	Window time.Duration
	// CPU is what the agent's process used, in cores. 0: not known.
	CPU float64
	Reading
	// BrokenRules lists the rules that the load broke, for people. Empty: the load is safe.
	BrokenRules []string
	// HeldUp reports whether the load was not reached although the agent had cores to spare: the simulator or other
	// programs had not.
	HeldUp bool
}

// Safe reports whether the load kept all rules.
func (r *Row) Safe() bool { return len(r.BrokenRules) == 0 }

// Share returns the part of the frames that a number of them is.
func (r *Row) Share(frames uint64) float64 { return fraction(frames, r.Frame.Count) }

func fraction(part, of uint64) float64 { return float64(part) / float64(max(1, of)) }

// judge sets what was achieved, and the rules that a load broke. The agent had
// that many cores. failure is why its run ended early, or "". A window may begin
// just after a tick and end just before one, so each stream may lack one frame.
func (r Rules) judge(row *Row, cores int, failure string) {
	row.BrokenRules = []string{}
	if failure != "" {
		row.BrokenRules = append(row.BrokenRules, failure)
		return
	}
	events := row.Frame.Count
	if row.Streams == 0 {
		events = row.Completed
	}
	row.Achieved = float64(events) / row.Window.Seconds()
	broken := func(is bool, format string, args ...any) {
		if is {
			row.BrokenRules = append(row.BrokenRules, fmt.Sprintf(format, args...))
		}
	}
	reached := row.Achieved+float64(row.Streams)/row.Window.Seconds() >= minAchieved*row.Asked
	row.HeldUp = !reached && row.CPU > 0 && row.CPU < fullCore*float64(cores)
	by := ""
	if row.HeldUp {
		by = " (the agent had cores to spare: the simulator or other programs held it up)"
	}
	broken(!reached, "%.1f %% of the requested load%s", 100*row.Achieved/row.Asked, by)
	broken(row.Frame.P99 > r.Error.Nanoseconds(), "error p99 %v", microseconds(row.Frame.P99))
	coalesced := row.Share(row.Coalesced)
	broken(coalesced > maxCoalesced, "%.2f %% of frames coalesced", 100*coalesced)
	broken(row.Starts > 0 && row.Lateness.P99 > r.Lateness.Nanoseconds(), "lateness p99 %v",
		microseconds(row.Lateness.P99))
	failed := fraction(row.Failed, row.Failed+row.Completed)
	broken(failed > maxFailed, "%.2f %% of requests failed: %s", 100*failed, row.Failure)
}

func microseconds(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }

// Limit is the highest load of a kind that this machine's agent holds safely.
type Limit struct {
	// Best is the highest safe load below which every load is safe. Its load is empty: there is none.
	Best Row
	// Above says what broke at the next load. Empty: nothing did.
	Above string
	// AtLeast reports whether the agent may hold more: nothing broke, or something else than the agent was the limit.
	AtLeast bool
}

// LimitOf finds the limit among rows of rising loads.
func LimitOf(rows []Row) (l Limit) {
	for i := range rows {
		r := &rows[i]
		if !r.Safe() {
			l.Above, l.AtLeast = strings.Join(r.BrokenRules, ", "), r.HeldUp && i > 0
			return l
		}
		l.Best = *r
	}
	l.AtLeast = true
	return l
}
