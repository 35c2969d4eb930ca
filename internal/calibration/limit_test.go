package calibration

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var rules = Rules{Error: DefaultError, Lateness: DefaultLateness}

// row returns a row that keeps all rules, except for the effect of change.
func row(l Load, change func(*Row)) Row {
	step := 20 * time.Millisecond
	r := Row{Load: l, Asked: l.asked(step), Achieved: l.asked(step), Window: 4 * time.Second, AgentCPU: 0.5,
		SimulatorCPU: 0.5}
	r.Frames, r.Completed = 100_000, 1000
	r.Frame.Stamp = Spread{Count: 100_000, P50: 3_000, P99: 12_000, P999: 40_000, Max: 900_000}
	r.Lateness = Spread{Count: 1000, P50: 30_000, P99: 120_000, Max: 400_000}
	if change != nil {
		change(&r)
	}
	return r
}

func TestJudge(t *testing.T) {
	streams, starts := Load{Streams: 1000}, Load{Starts: 1000}
	other := 1.3
	for name, c := range map[string]struct {
		load   Load
		change func(*Row)
		broken string
		bound  string
	}{
		"all is well":      {streams, nil, "", ""},
		"starts":           {starts, nil, "", ""},
		"at the budget":    {streams, func(r *Row) { r.Frame.Stamp.P99 = 100_000 }, "", ""},
		"beyond it":        {streams, func(r *Row) { r.Frame.Stamp.P99 = 101_000 }, "stamp error p99 101µs", ""},
		"the program's":    {streams, func(r *Row) { r.Frame.Program.P99 = 9_000_000 }, "", ""},
		"coalesced":        {streams, func(r *Row) { r.Coalesced = 101 }, "0.10 % of frames coalesced", ""},
		"hardly coalesced": {streams, func(r *Row) { r.Coalesced = 100 }, "", ""},
		"one tick cut off": {streams, func(r *Row) { r.Achieved = 50_000 - 499 - 250 }, "", ""},
		"not reached": {streams, func(r *Row) { r.Achieved = 49_000 }, "98.0 % of the requested load",
			"the machine was at its limit"},
		"agent full": {streams, func(r *Row) { r.Achieved, r.AgentCPU = 40_000, 0.91 },
			"80.0 % of the requested load", "the agent was at its limit"},
		"simulator full": {streams, func(r *Row) { r.Achieved, r.SimulatorCPU = 40_000, 0.95 },
			"80.0 % of the requested load", "the simulator was at its limit"},
		"both full": {streams, func(r *Row) { r.Achieved, r.AgentCPU, r.SimulatorCPU = 40_000, 1, 1 },
			"80.0 % of the requested load", "the agent and simulator were at their limit"},
		"others": {streams, func(r *Row) { r.Achieved, r.OtherCPU = 40_000, &other },
			"80.0 % of the requested load", "the machine was at its limit: other programs used 1.3 cores"},
		"full, but reached": {streams, func(r *Row) { r.AgentCPU = 1 }, "", ""},
		"reached by a full simulator": {streams, func(r *Row) { r.Coalesced, r.SimulatorCPU = 1000, 1 },
			"1.00 % of frames coalesced", "the simulator was at its limit"},
		"late":       {starts, func(r *Row) { r.Lateness.P99 = 1_001_000 }, "send lateness p99 1.001ms", ""},
		"late slots": {streams, func(r *Row) { r.Lateness.P99 = 1_001_000 }, "", ""},
		"failures": {streams, func(r *Row) { r.Failed, r.Failure = 10, "reset" },
			"0.99 % of requests failed: reset", ""},
		"one failure of all": {streams, func(r *Row) { r.Completed, r.Failed = 1000, 1 }, "", ""},
		"nothing came": {starts, func(r *Row) { *r = Row{Load: starts, Asked: 1000, Window: time.Second} },
			"0.0 % of the requested load", "the machine was at its limit"},
	} {
		r := row(c.load, c.change)
		r.AgentCores, r.SimulatorCores = 1, 1
		rules.judge(&r)
		if got := strings.Join(r.BrokenRules, "; "); got != c.broken || r.Safe() != (c.broken == "") {
			t.Errorf("%s: %q, want %q", name, got, c.broken)
		}
		if got := r.BottleneckText(); got != c.bound {
			t.Errorf("%s: %q, want %q", name, got, c.bound)
		}
	}
}

func TestLimitOf(t *testing.T) {
	safe, broken := func(l Load) Row { return row(l, nil) }, func(l Load) Row {
		return row(l, func(r *Row) { r.BrokenRules = []string{"it broke"} })
	}
	short := func(l Load) Row {
		return row(l, func(r *Row) { r.BrokenRules, r.Bottleneck = []string{"90.0 %"}, "simulator" })
	}
	n := func(streams int) Load { return Load{Streams: streams} }
	for name, c := range map[string]struct {
		rows    []Row
		streams int
		by      string
		least   bool
	}{
		"none":                    {nil, 0, "", true},
		"all":                     {[]Row{safe(n(1)), safe(n(2))}, 2, "", true},
		"to the second":           {[]Row{safe(n(1)), safe(n(2)), broken(n(3)), broken(n(3))}, 2, "it broke", false},
		"safe once":               {[]Row{safe(n(1)), broken(n(2)), safe(n(2)), broken(n(3))}, 2, "it broke", false},
		"safe once, then not":     {[]Row{safe(n(2)), broken(n(2))}, 2, "", true},
		"not above what is not":   {[]Row{safe(n(1)), broken(n(2)), safe(n(3))}, 1, "it broke", false},
		"not even the first":      {[]Row{broken(n(1)), safe(n(2))}, 0, "it broke", false},
		"the simulator gave out":  {[]Row{safe(n(1)), short(n(2))}, 1, "90.0 % (the simulator was at its limit)", true},
		"starts are another list": {[]Row{safe(n(1)), broken(Load{Starts: 5})}, 1, "", true},
	} {
		l := limitOf(c.rows)
		if l.Streams != c.streams || l.StreamsLimitedBy != c.by || l.StreamsIsLowerBound() != c.least {
			t.Errorf("%s: %+v, want %d streams by %q", name, l, c.streams, c.by)
		}
		if l.FramesPerSecond != float64(50*c.streams) {
			t.Errorf("%s: %v frames/s", name, l.FramesPerSecond)
		}
	}
	starts := limitOf([]Row{safe(Load{Starts: 500}), safe(Load{Starts: 1000}), broken(Load{Starts: 2000})})
	if starts.StartsPerSecond != 1000 || starts.StartsLimitedBy != "it broke" || starts.StartsIsLowerBound() {
		t.Errorf("starts: %+v", starts)
	}
}

func TestSplits(t *testing.T) {
	five := []int{0, 1, 4, 5, 6}
	for name, c := range map[string]struct {
		usable []int
		asked  int
		agent  [][]int // of each split
		wrong  string
	}{
		"one":        {[]int{3}, 0, [][]int{nil}, ""},
		"not known":  {nil, 0, [][]int{nil}, ""},
		"two":        {[]int{0, 1}, 0, [][]int{{0}}, ""},
		"five":       {five, 0, [][]int{{0, 1}, {0}}, ""},
		"asked":      {five, 4, [][]int{{0, 1, 4, 5}}, ""},
		"eight":      {[]int{0, 1, 2, 3, 4, 5, 6, 7}, 0, [][]int{{0, 1, 2, 3}, {0, 1}, {0}}, ""},
		"all of two": {[]int{0, 1}, 2, nil, "the simulator needs one of the 2"},
		"two of one": {[]int{0}, 2, nil, "this process may use 1"},
	} {
		got, err := splits(c.usable, c.asked, max(1, len(c.usable)))
		if len(got) != len(c.agent) || (err == nil) != (c.wrong == "") ||
			err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		for i, cores := range got {
			both := slices.Concat(cores.Agent, cores.Simulator)
			if !slices.Equal(cores.Agent, c.agent[i]) || cores.Separate() && !slices.Equal(both, c.usable) {
				t.Errorf("%s: split %d is %+v", name, i, cores)
			}
		}
	}
}

// More streams than half of the ports need more addresses.
func TestEndpointsForStreams(t *testing.T) {
	for streams, want := range map[int]int{0: 1, 1: 1, 14_000: 1, 14_001: 2, 95_000: 7} {
		if got := (room{ports: 28_000}).endpoints(streams); got != want {
			t.Errorf("%d streams: %d endpoints, want %d", streams, got, want)
		}
	}
	if got := (room{}).endpoints(1 << 20); got != 1 {
		t.Errorf("ports not known: %d endpoints", got)
	}
}

func TestRoom(t *testing.T) {
	for name, c := range map[string]struct {
		room    room
		streams int
		wrong   string
	}{
		"nothing known": {room{}, 1 << 20, ""},
		"files":         {room{files: 20_000}, 19_872, ""},
		"too few files": {room{files: 20_000}, 19_873,
			"19873 streams need 20001 open files in each of the two processes, but the hard limit is 20000"},
		"hardly any file": {room{files: 64}, 1, "at most 0 streams"},
	} {
		err := c.room.check(c.streams)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
}
