package labcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/internal/calibration"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// calibrationSheet is everything that a calibration found, in the form that --json writes.
type calibrationSheet struct {
	Machine host.Machine      `json:"machine"`
	Cores   calibration.Cores `json:"cores"`
	Step    time.Duration     `json:"step_ns"`
	Spread  bool              `json:"spread"`
	Rules   calibration.Rules `json:"rules"`
	Rows    []calibration.Row `json:"loads"`
	Limit   calibration.Limit `json:"limit"`
	Took    time.Duration     `json:"took_ns"`
}

// headline says what is measured, and on which cores. again is set if the simulator got more cores than before.
func (s *calibrationSheet) headline(again bool) string {
	ticks := "all streams tick at once"
	if s.Spread {
		ticks = "streams tick one after another"
	}
	where := "agent and simulator share " + words.Count(uint64(s.Cores.Total), "core")
	if s.Cores.Separate() {
		where = fmt.Sprintf("agent on %s, simulator on %s", coreNames(s.Cores.Agent), coreNames(s.Cores.Simulator))
	}
	if again {
		return "The simulator was at its limit first. With more cores for it: " + where
	}
	return fmt.Sprintf("Calibrating %s: %s; a frame each %v, %s", s.Machine.Host, where, s.Step, ticks)
}

// coreNames formats cores: "core 0", "cores 0-3", "cores 0-2,5".
func coreNames(cores []int) string {
	var parts []string
	for i := 0; i < len(cores); {
		end := i
		for end+1 < len(cores) && cores[end+1] == cores[end]+1 {
			end++
		}
		part := strconv.Itoa(cores[i])
		if end > i {
			part += "-" + strconv.Itoa(cores[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	if len(cores) == 1 {
		return "core " + parts[0]
	}
	return "cores " + strings.Join(parts, ",")
}

// writeTables prints what was measured at each load, and the errors.
func (s *calibrationSheet) writeTables(w io.Writer) error {
	if len(s.Rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\nLoads: cores used of those given, times in microseconds"); err != nil {
		return err
	}
	if err := s.loads().Write(w, 0); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "\nErrors against the truth, in microseconds"); err != nil {
		return err
	}
	return s.errors().Write(w, 0)
}

// loads returns the table of loads: cores used of those given, times in microseconds.
func (s *calibrationSheet) loads() *table.Table {
	t := table.New(table.Numbers("LOAD", "ASKED/S", "DONE/S", "AGENT", "SIM", "OTHERS", "LAG p99", "LATE p50/p99",
		"COALESCED", "UNSTAMPED", "SAFE"))
	for i := range s.Rows {
		r := &s.Rows[i]
		late, others, safe := "n/a", "n/a", "yes"
		if r.Starts > 0 && r.Lateness.Count > 0 {
			late = inMicroseconds(r.Lateness.P50) + "/" + inMicroseconds(r.Lateness.P99)
		}
		if r.OtherCPU != nil {
			others = fmt.Sprintf("%.2f", *r.OtherCPU)
		}
		if !r.Safe() {
			safe = "no"
		}
		t.Add(loadName(r.Load), words.Whole(r.Asked), words.Whole(r.Achieved), used(r.AgentCPU, r.AgentCores),
			used(r.SimulatorCPU, r.SimulatorCores), others,
			spreadCell(r.Lag, r.Lag.P99), late, share(r.CoalescedShare()), share(r.UnstampedShare()), safe)
	}
	return t
}

// errors returns the table of errors, with both clocks side by side.
func (s *calibrationSheet) errors() *table.Table {
	t := table.New(table.Numbers("LOAD"), table.Words("OF"),
		table.Numbers("STAMP p50", "p99", "p99.9", "max", "PROGRAM p50", "p99", "p99.9", "max"))
	for i := range s.Rows {
		r := &s.Rows[i]
		name := loadName(r.Load)
		for _, e := range []struct {
			of     string
			errors calibration.Errors
		}{{"TTFT", r.TTFT}, {"ITL", r.ITL}, {"ITL but last", r.ITLWithoutLast}, {"E2E", r.E2E}} {
			if r.Starts > 0 && e.of == "ITL but last" {
				continue // of two tokens, the only gap is the last
			}
			t.Add(slices.Concat([]string{name, e.of}, spreadCells(e.errors.Stamp), spreadCells(e.errors.Program))...)
			name = " " // an empty number is not known
		}
	}
	return t
}

// used formats the cores that a process used, of those that it had.
func used(cores float64, of int) string { return fmt.Sprintf("%.2f/%d", cores, of) }

func loadName(l calibration.Load) string {
	if l.Streams > 0 {
		return words.Thousands(uint64(l.Streams)) + " streams"
	}
	return words.Whole(l.Starts) + " starts/s"
}

func spreadCells(s calibration.Spread) []string {
	return []string{spreadCell(s, s.P50), spreadCell(s, s.P99), spreadCell(s, s.P999), spreadCell(s, s.Max)}
}

// spreadCell formats one value of a spread, or n/a if the spread is empty.
func spreadCell(s calibration.Spread, ns int64) string {
	if s.Count == 0 {
		return "n/a"
	}
	return inMicroseconds(ns)
}

// inMicroseconds formats nanoseconds as microseconds, with one decimal below 100.
func inMicroseconds(ns int64) string {
	us := float64(ns) / 1000
	if us < 99.95 {
		return fmt.Sprintf("%.1f", us)
	}
	return words.Whole(us)
}

// share formats a part of a whole in percent.
func share(part float64) string {
	if part == 0 {
		return "0"
	}
	if part < 0.0001 {
		return "<0.01 %"
	}
	return fmt.Sprintf("%.2f %%", 100*part)
}

// writeLimit prints the limits, and what limited them.
func (s *calibrationSheet) writeLimit(w io.Writer) error {
	l := &s.Limit
	b := &strings.Builder{}
	fmt.Fprintf(b, "\nThis machine is exact (stamp error p99 within %v, send lateness p99 within %v) up to\n",
		s.Rules.Error, s.Rules.Lateness)
	measured := func(of func(calibration.Load) float64) bool {
		return slices.ContainsFunc(s.Rows, func(r calibration.Row) bool { return of(r.Load) > 0 })
	}
	if measured(func(l calibration.Load) float64 { return float64(l.Streams) }) {
		s.limitLine(b, l.Streams > 0, l.StreamsIsLowerBound(), fmt.Sprintf(
			"%s, %s frames/s",
			words.Count(
				uint64(l.Streams),
				"stream",
			),
			words.Whole(l.FramesPerSecond),
		), "no load of streams", l.StreamsLimitedBy)
	}
	if measured(func(l calibration.Load) float64 { return l.Starts }) {
		s.limitLine(b, l.StartsPerSecond > 0, l.StartsIsLowerBound(), words.Whole(l.StartsPerSecond)+" starts/s",
			"no load of starts", l.StartsLimitedBy)
	}
	if s.Cores.Separate() {
		fmt.Fprintf(b, "with the agent on %s of %d", coreNames(s.Cores.Agent), s.Cores.Total)
		if n := len(s.Cores.Agent); n > 1 && l.Streams > 0 {
			fmt.Fprintf(b, ": %s frames/s for each of its cores", words.Whole(l.FramesPerSecond/float64(n)))
		}
		b.WriteString(".\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// limitLine prints one limit, and which rule was broken first above it.
func (s *calibrationSheet) limitLine(b *strings.Builder, found, more bool, text, none, by string) {
	least := ""
	if more {
		least = "at least "
	}
	if !found {
		least, text = "", none
	}
	fmt.Fprintf(b, "  %s%s\n", least, text)
	if by == "" {
		return
	}
	for i, line := range words.Wrap("above: "+by, 100) {
		if i > 0 {
			line = "       " + line
		}
		fmt.Fprintf(b, "    %s\n", line)
	}
}

// capacity returns the limits in the form in which they are kept.
func (s *calibrationSheet) capacity() *host.Capacity {
	return &host.Capacity{
		Streams: s.Limit.Streams, FramesPerSecond: s.Limit.FramesPerSecond, StartsPerSecond: s.Limit.StartsPerSecond,
		MeasuredAt: time.Now().UTC().Truncate(time.Second), Machine: s.Machine,
	}
}

// writeJSON writes the whole sheet for programs.
func (s *calibrationSheet) writeJSON(path string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}
