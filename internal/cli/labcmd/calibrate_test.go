package labcmd

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/internal/calibration"
)

var update = flag.Bool("update", false, "write the golden files again")

// sampleSheet has everything that a sheet can show, with the widest numbers.
func sampleSheet() *calibrationSheet {
	spread := func(count uint64, p50, p99, p999, most int64) calibration.Spread {
		return calibration.Spread{Count: count, P50: p50, P99: p99, P999: p999, Max: most}
	}
	reading := func(scale int64) calibration.Reading {
		both := calibration.Errors{
			Stamp:   spread(1000, 1_300, 8_120*scale, 31_000*scale, 99_949*scale),
			Program: spread(1000, 450_000, 7_800_000*scale, 9_000_000*scale, 11_000_000*scale),
		}
		return calibration.Reading{
			Frame: both, TTFT: both, ITL: both, ITLWithoutLast: both, E2E: both,
			Lag:      spread(900, 1000, 7_000_000*scale, 0, 0),
			Lateness: spread(1000, 32_000, 104_000*scale, 0, 0),
			Frames:   100_000, Coalesced: uint64(scale * scale), Started: 1000, Completed: 1000,
		}
	}
	other := 0.25
	rows := []calibration.Row{
		{Load: calibration.Load{Streams: 100}, Asked: 5000, Achieved: 4999.6, Window: 4 * time.Second, AgentCPU: 0.06,
			SimulatorCPU: 0.05, AgentCores: 4, SimulatorCores: 4, OtherCPU: &other, Reading: reading(1)},
		{
			Load: calibration.Load{Streams: 12000}, Asked: 600_000, Achieved: 412_345, Window: 4 * time.Second,
			AgentCPU: 3.98, SimulatorCPU: 3.97, AgentCores: 4, SimulatorCores: 4, Reading: reading(19),
			BrokenRules: []string{
				"68.7 % of the requested load",
				"stamp error p99 154µs",
				"0.36 % of frames coalesced",
			},
			Bottleneck: "agent and simulator",
		},
		{Load: calibration.Load{Starts: 30000}, Asked: 30000, Achieved: 29_990, Window: 4 * time.Second, AgentCPU: 0.91,
			SimulatorCPU: 0.7, AgentCores: 4, SimulatorCores: 4, OtherCPU: &other, Reading: reading(2)},
		{Load: calibration.Load{Starts: 40000}, Asked: 40000, Window: 4 * time.Second, AgentCores: 4, SimulatorCores: 4,
			BrokenRules: []string{"0.0 % of the requested load"}, Bottleneck: "machine", OtherCPU: &other},
	}
	return &calibrationSheet{
		Machine: host.Machine{Host: "box", Cores: 8, Kernel: "linux 6.8", Version: "v1"},
		Cores:   calibration.Cores{Agent: []int{0, 1, 2, 5}, Simulator: []int{3, 4, 6, 7}, Total: 8},
		Step:    20 * time.Millisecond,
		Rules:   calibration.Rules{Error: calibration.DefaultError, Lateness: calibration.DefaultLateness}, Rows: rows,
		Limit: calibration.Limit{
			Streams: 100, FramesPerSecond: 4999.6, StreamsLimitedBy: strings.Join(rows[1].BrokenRules, ", ") + " (" +
				rows[1].BottleneckText() + ")", StartsPerSecond: 30_000,
		},
	}
}

func TestCalibrationSheet(t *testing.T) {
	var b bytes.Buffer
	s := sampleSheet()
	b.WriteString(s.headline(false) + "\n" + s.headline(true) + "\n")
	if err := s.writeTables(&b); err != nil {
		t.Fatal(err)
	}
	if err := s.writeLimit(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 110 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	golden := filepath.Join("testdata", "calibration.txt")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("if the new text is right, go test ./internal/cli/labcmd -update; got:\n%s\nwant:\n%s", b.String(),
			want)
	}
}

func TestCalibrationProgressInLines(t *testing.T) {
	var b bytes.Buffer
	p := newCalibrationProgress(&b, 4, time.Second)
	for _, r := range sampleSheet().Rows {
		p.began(r.Load, time.Second)
		p.measured(&r)
	}
	p.close()
	p.close()
	for _, want := range []string{
		"     100 streams  5,000/s, agent 0.06 cores, stamp error p99 8.1 us, program's 7,800 us\n",
		"(the agent and simulator were at their limit)",
		"30,000 starts/s  29,990/s",
		"late by p99 208 us",
		"stamp error p99 n/a us",
	} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is missing in:\n%s", want, b.String())
		}
	}
	if strings.ContainsAny(b.String(), "\r\033") {
		t.Errorf("a log has control characters: %q", b.String())
	}
}

func TestCalibrationProgressOnATerminal(t *testing.T) {
	var b bytes.Buffer
	p := newCalibrationProgress(&b, 4, time.Second)
	p.terminal = true
	p.began(calibration.Load{Streams: 1000}, time.Second)
	p.close() // as after Ctrl-C: goleak finds the clock if it is still running
	if got := b.String(); !strings.Contains(got, "load 1 of at most 4: 1,000 streams, ") ||
		!strings.HasSuffix(got, "\r\033[K") {
		t.Errorf("%q", got)
	}
}

func TestCoreNames(t *testing.T) {
	for want, cores := range map[string][]int{"core 3": {3}, "cores 0-3": {0, 1, 2, 3}, "cores 0,2": {0, 2},
		"cores 0-1,4,6-7": {0, 1, 4, 6, 7}} {
		if got := coreNames(cores); got != want {
			t.Errorf("%v: %s, want %s", cores, got, want)
		}
	}
}
