package calibration

import (
	"fmt"
	"strings"
	"time"
)

// Rules say up to where a load counts as safe.
type Rules struct {
	// Error is the largest p99 of the stamps' error.
	Error time.Duration `json:"error_ns"`
	// Lateness is the largest p99 of the lateness of starts.
	Lateness time.Duration `json:"lateness_ns"`
}

const (
	// DefaultError is 1 % of a token time of 10 ms, the shortest that deployments under load are asked for: what is
	// reported of it is right to its second digit. It is far above what stamps are wrong by (a few microseconds), and
	// far below what a program's own clock is wrong by when it is late.
	DefaultError = 100 * time.Microsecond
	// DefaultLateness is what a start may be late by. A server that batches takes requests in once a step, of 5 ms and
	// more: within a millisecond it sees the schedule that was asked for.
	DefaultLateness = time.Millisecond
	// mostCoalesced is the largest share of frames that came in one read with the frame before: of those the kernel
	// keeps one time only.
	mostCoalesced = 0.001
	// leastAchieved is the smallest part of the load asked for that has to be reached.
	leastAchieved = 0.99
	// mostFailed is the largest share of requests that may fail.
	mostFailed = 0.001
	// fullCore is from which use on a process's cores count as used up. The rest is lost where another process takes
	// turns with it.
	fullCore = 0.9
	// leastOther is from which use on, in cores, other programs are named as what a machine is short of.
	leastOther = 0.2
)

// Row is what was measured under one load.
type Row struct {
	Load
	// Asked and Achieved are frames per second, of a load of starts requests per second.
	Asked    float64 `json:"asked_per_second"`
	Achieved float64 `json:"achieved_per_second"`
	// Window is how long it was measured.
	Window time.Duration `json:"window_ns"`
	// AgentCPU and SimulatorCPU are what the two processes used, in cores.
	AgentCPU     float64 `json:"agent_cpu_cores"`
	SimulatorCPU float64 `json:"simulator_cpu_cores"`
	// OtherCPU is what all else on the machine used, and what its host took from it, in cores. Nil: not known.
	OtherCPU *float64 `json:"other_cpu_cores"`
	Reading
	// Broken are the rules that the load did not keep, for people. Empty: it is safe.
	Broken []string `json:"broken_rules"`
	// Bound is what was at its limit where the load was not reached: "agent", "simulator", both, or "machine", where
	// neither had used up its cores. Empty: it was reached.
	Bound string `json:"bound,omitempty"`
}

// Safe says that the load kept all rules.
func (r *Row) Safe() bool { return len(r.Broken) == 0 }

// reached says whether the load was there at all. A window may begin just after a tick and end just before one, so that
// each stream may lack one frame.
func (r *Row) reached() bool {
	cut := float64(r.Streams) / r.Window.Seconds()
	return r.Achieved+cut >= leastAchieved*r.Asked
}

// CoalescedShare and UnstampedShare are parts of all frames.
func (r *Row) CoalescedShare() float64 { return share(r.Coalesced, r.Frames) }

// UnstampedShare is the part of frames without the kernel's stamp.
func (r *Row) UnstampedShare() float64 { return share(r.Unstamped, r.Frames) }

func share(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// judge finds the rules that a load did not keep, and what was at its limit. The cores are those that each process has.
func (r Rules) judge(row *Row, agentCores, simulatorCores int) {
	broken := func(is bool, format string, args ...any) {
		if is {
			row.Broken = append(row.Broken, fmt.Sprintf(format, args...))
		}
	}
	row.Broken = []string{}
	broken(!row.reached(), "%.1f %% of the load asked for", 100*row.Achieved/row.Asked)
	broken(row.Frame.Stamp.P99 > r.Error.Nanoseconds(), "stamp error p99 %v", microseconds(row.Frame.Stamp.P99))
	broken(row.CoalescedShare() > mostCoalesced, "%.2f %% of frames coalesced", 100*row.CoalescedShare())
	broken(row.Starts > 0 && row.Lateness.P99 > r.Lateness.Nanoseconds(), "starts late by p99 %v",
		microseconds(row.Lateness.P99))
	failed := share(row.Failed, row.Failed+row.Completed)
	broken(failed > mostFailed, "%.2f %% of requests failed: %s", 100*failed, row.Failure)
	if !row.reached() {
		row.Bound = bound(row.AgentCPU, row.SimulatorCPU, agentCores, simulatorCores)
	}
}

func microseconds(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }

// bound says whose cores were used up.
func bound(agentCPU, simulatorCPU float64, agentCores, simulatorCores int) string {
	var full []string
	if agentCPU >= fullCore*float64(agentCores) {
		full = append(full, "agent")
	}
	if simulatorCPU >= fullCore*float64(simulatorCores) {
		full = append(full, "simulator")
	}
	if len(full) == 0 {
		return "machine"
	}
	return strings.Join(full, " and ")
}

// Limit is the highest load that this machine's agent holds safely.
type Limit struct {
	// Streams at once, their frames per second as achieved, and starts per second.
	Streams         int     `json:"streams"`
	FramesPerSecond float64 `json:"frames_per_second"`
	StartsPerSecond float64 `json:"starts_per_second"`
	// StreamsBy and StartsBy say why there is no more: what broke first above. Empty: nothing did, and the limit is at
	// least this.
	StreamsBy string `json:"streams_by,omitempty"`
	StartsBy  string `json:"starts_by,omitempty"`
}

// limitOf finds the limit: the highest load that is safe, with no lower load that never was. A load may have been
// measured more than once: a neighbour's noise breaks rules too, so that it is safe if it was so once.
func limitOf(rows []Row) Limit {
	var l Limit
	streams, by := highest(rows, func(r *Row) float64 { return float64(r.Streams) })
	if streams != nil {
		l.Streams, l.FramesPerSecond = streams.Streams, streams.Achieved
	}
	l.StreamsBy = by
	starts, by := highest(rows, func(r *Row) float64 { return r.Starts })
	if starts != nil {
		l.StartsPerSecond = starts.Starts
	}
	l.StartsBy = by
	return l
}

// highest returns the last safe row before the first load, in rising order, that never was safe, and why that was not.
// Size is 0 of rows that do not count. Rows of one load are next to each other.
func highest(rows []Row, size func(*Row) float64) (best *Row, why string) {
	var sizes []float64
	safe, broken := map[float64]*Row{}, map[float64]*Row{}
	for i := range rows {
		n := size(&rows[i])
		if n == 0 {
			continue
		}
		if safe[n] == nil && broken[n] == nil {
			sizes = append(sizes, n)
		}
		if rows[i].Safe() {
			safe[n] = &rows[i]
		} else {
			broken[n] = &rows[i]
		}
	}
	for _, n := range sizes {
		if safe[n] == nil {
			return best, whyOf(broken[n])
		}
		best = safe[n]
	}
	return best, ""
}

// whyOf says what broke, and whose limit it was. A simulator at its limit says nothing of the agent's.
func whyOf(r *Row) string {
	why := strings.Join(r.Broken, ", ")
	if r.Bound != "" {
		why += " (" + r.BoundWords() + ")"
	}
	return why
}

// BoundWords says for people what was at its limit. Empty: the load was reached.
func (r *Row) BoundWords() string {
	switch {
	case r.Bound == "":
		return ""
	case r.Bound == "machine" && r.OtherCPU != nil && *r.OtherCPU >= leastOther:
		return fmt.Sprintf("the machine was at its limit: other programs used %.1f cores", *r.OtherCPU)
	case strings.Contains(r.Bound, " and "):
		return "the " + r.Bound + " were at their limit"
	default:
		return "the " + r.Bound + " was at its limit"
	}
}

// atLeast says whether a limit's reason is no limit of the agent: nothing broke, or the simulator gave out first.
func atLeast(why string) bool {
	return why == "" || strings.Contains(why, "(the simulator was at its limit)")
}

// StreamsAtLeast says that the agent may hold more streams than were found.
func (l *Limit) StreamsAtLeast() bool { return atLeast(l.StreamsBy) }

// StartsAtLeast says that the agent may start more requests than were found.
func (l *Limit) StartsAtLeast() bool { return atLeast(l.StartsBy) }
