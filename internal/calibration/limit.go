package calibration

import (
	"fmt"
	"strings"
	"time"
)

// Rules say up to where a load is safe.
type Rules struct {
	// Error is the largest p99 of the timestamps' error.
	Error time.Duration `json:"error_ns"`
	// Lateness is the largest p99 of how late requests start.
	Lateness time.Duration `json:"lateness_ns"`
}

const (
	// DefaultError is 1 % of a token time of 10 ms, the shortest that is required of deployments under load: its
	// reported value is right to the second digit. It is far above the error of kernel timestamps (a few microseconds),
	// and far below the error of a program's own clock reading when the program is late.
	DefaultError = 100 * time.Microsecond
	// DefaultLateness is how late a start may be. A server that batches accepts requests once a step, of 5 ms and more,
	// so within a millisecond it sees the requested schedule.
	DefaultLateness = time.Millisecond
	// maxCoalesced is the largest part of frames that came in one read with the previous frame: the kernel keeps only
	// one time for both.
	maxCoalesced = 0.001
	// minAchieved is the smallest part of the requested load that must be reached.
	minAchieved = 0.99
	// maxFailed is the largest part of requests that may fail.
	maxFailed = 0.001
	// fullCore is the utilization from which a process's cores count as used up. The rest is lost when another process
	// takes turns with it.
	fullCore = 0.9
	// minOtherCPU is the use, in cores, from which other programs are named as the reason that a machine is at its
	// limit.
	minOtherCPU = 0.2
)

// Row is the measurement of one load.
type Row struct {
	Load
	// Asked and Achieved are in frames per second, or in requests per second for a load of starts.
	Asked    float64 `json:"asked_per_second"`
	Achieved float64 `json:"achieved_per_second"`
	// Window is how long the load was measured.
	Window time.Duration `json:"window_ns"`
	// AgentCPU and SimulatorCPU are what the two processes used, in cores.
	AgentCPU     float64 `json:"agent_cpu_cores"`
	SimulatorCPU float64 `json:"simulator_cpu_cores"`
	// AgentCores and SimulatorCores are how many cores each of them had.
	AgentCores     int `json:"agent_cores"`
	SimulatorCores int `json:"simulator_cores"`
	// OtherCPU is what everything else on the machine used, including what its host took from it, in cores. Nil: not
	// known.
	OtherCPU *float64 `json:"other_cpu_cores"`
	Reading
	// BrokenRules lists the rules that the load broke, for people. Empty: the load is safe.
	BrokenRules []string `json:"broken_rules"`
	// Bottleneck says what was at its limit if the load was not reached, or broke a rule because of the simulator:
	// "agent", "simulator", "agent and simulator", or "machine" if neither had used up its cores. Empty: neither.
	Bottleneck string `json:"bound,omitempty"`
}

// Safe reports whether the load kept all rules.
func (r *Row) Safe() bool { return len(r.BrokenRules) == 0 }

// reached reports whether the load was reached. A window may begin just after a tick and end just before one, so each
// stream may lack one frame.
func (r *Row) reached() bool {
	cut := float64(r.Streams) / r.Window.Seconds()
	return r.Achieved+cut >= minAchieved*r.Asked
}

// CoalescedShare is the part of frames that came in one read with the previous frame.
func (r *Row) CoalescedShare() float64 { return fraction(r.Coalesced, r.Frames) }

// UnstampedShare is the part of frames without a kernel timestamp.
func (r *Row) UnstampedShare() float64 { return fraction(r.Unstamped, r.Frames) }

func fraction(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// judge sets the rules that a load broke, and what was at its limit.
func (r Rules) judge(row *Row) {
	broken := func(is bool, format string, args ...any) {
		if is {
			row.BrokenRules = append(row.BrokenRules, fmt.Sprintf(format, args...))
		}
	}
	row.BrokenRules = []string{}
	broken(!row.reached(), "%.1f %% of the requested load", 100*row.Achieved/row.Asked)
	broken(row.Frame.Stamp.P99 > r.Error.Nanoseconds(), "stamp error p99 %v", microseconds(row.Frame.Stamp.P99))
	broken(row.CoalescedShare() > maxCoalesced, "%.2f %% of frames coalesced", 100*row.CoalescedShare())
	broken(row.Starts > 0 && row.Lateness.P99 > r.Lateness.Nanoseconds(), "send lateness p99 %v",
		microseconds(row.Lateness.P99))
	failed := fraction(row.Failed, row.Failed+row.Completed)
	broken(failed > maxFailed, "%.2f %% of requests failed: %s", 100*failed, row.Failure)
	row.Bottleneck = row.bottleneck()
}

func microseconds(ns int64) time.Duration { return time.Duration(ns).Round(time.Microsecond) }

// bottleneck returns what was at its limit if the load was not reached. A simulator that had used up its cores is the
// limit even if the load was reached: it may have sent the frames too late, and several at once.
func (r *Row) bottleneck() string {
	agent := r.AgentCPU >= fullCore*float64(r.AgentCores)
	simulator := r.SimulatorCPU >= fullCore*float64(r.SimulatorCores)
	switch {
	case r.Safe() || r.reached() && !simulator:
		return ""
	case agent && simulator:
		return "agent and simulator"
	case simulator:
		return "simulator"
	case agent:
		return "agent"
	default:
		return "machine"
	}
}

// Limit is the highest load that this machine's agent holds safely.
type Limit struct {
	// Streams at once, their frames per second as achieved, and starts per second.
	Streams         int     `json:"streams"`
	FramesPerSecond float64 `json:"frames_per_second"`
	StartsPerSecond float64 `json:"starts_per_second"`
	// StreamsLimitedBy and StartsLimitedBy say what broke first above the limit. Empty: nothing did, and the limit may
	// be higher.
	StreamsLimitedBy string `json:"streams_by,omitempty"`
	StartsLimitedBy  string `json:"starts_by,omitempty"`
	// Cores are the cores on which the limit was found.
	Cores Cores `json:"cores"`
}

// limitOf finds the limit: the highest safe load below which every load is safe. A load may have been measured more
// than once. It is safe if it was safe once, because a neighbour's noise breaks rules, too.
func limitOf(rows []Row) Limit {
	var l Limit
	streams, by := highest(rows, func(r *Row) float64 { return float64(r.Streams) })
	if streams != nil {
		l.Streams, l.FramesPerSecond = streams.Streams, streams.Achieved
	}
	l.StreamsLimitedBy = by
	starts, by := highest(rows, func(r *Row) float64 { return r.Starts })
	if starts != nil {
		l.StartsPerSecond = starts.Starts
	}
	l.StartsLimitedBy = by
	return l
}

// highest returns the last safe row before the first load that was never safe, in rising order, and why that load was
// not safe. size returns 0 for rows that do not count. Rows of one load must be adjacent.
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
			return best, reasonOf(broken[n])
		}
		best = safe[n]
	}
	return best, ""
}

// reasonOf says what broke, and whose limit that was. A simulator at its limit says nothing about the agent's limit.
func reasonOf(r *Row) string {
	why := strings.Join(r.BrokenRules, ", ")
	if r.Bottleneck != "" {
		why += " (" + r.BottleneckText() + ")"
	}
	return why
}

// BottleneckText says for people what was at its limit. Empty: nothing was.
func (r *Row) BottleneckText() string {
	switch {
	case r.Bottleneck == "":
		return ""
	case r.Bottleneck == "machine" && r.OtherCPU != nil && *r.OtherCPU >= minOtherCPU:
		return fmt.Sprintf("the machine was at its limit: other programs used %.1f cores", *r.OtherCPU)
	case strings.Contains(r.Bottleneck, " and "):
		return "the " + r.Bottleneck + " were at their limit"
	default:
		return "the " + r.Bottleneck + " was at its limit"
	}
}

// simulatorFirst reports whether the simulator was at its limit before the agent.
func (l *Limit) simulatorFirst() bool { return strings.Contains(l.StreamsLimitedBy, simulatorLimit) }

// simulatorLimit is how the reason of a limit ends that is not the agent's.
const simulatorLimit = "(the simulator was at its limit)"

// isLowerBound reports whether a limit's reason is not a limit of the agent: nothing broke, or the simulator reached
// its limit first.
func isLowerBound(why string) bool {
	return why == "" || strings.Contains(why, simulatorLimit)
}

// StreamsIsLowerBound reports whether the agent may hold more streams than were found.
func (l *Limit) StreamsIsLowerBound() bool { return isLowerBound(l.StreamsLimitedBy) }

// StartsIsLowerBound reports whether the agent may start more requests than were found.
func (l *Limit) StartsIsLowerBound() bool { return isLowerBound(l.StartsLimitedBy) }
