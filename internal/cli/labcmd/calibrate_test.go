package labcmd

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/internal/calibration"
)

var update = flag.Bool("update", false, "write the golden files again")

// sampleSheet has everything that a sheet can show, with the widest numbers.
func sampleSheet() *sheet {
	spread := func(count uint64, p50, p99 int64) calibration.Spread {
		return calibration.Spread{Count: count, P50: p50, P99: p99}
	}
	reading := func(scale int64) calibration.Reading {
		of := spread(100_000, 1_300, 8_120*scale)
		return calibration.Reading{
			Frame: of, TTFT: of, ITL: of, E2E: of, Lag: spread(900, 1000, 7_000_000*scale),
			Lateness: spread(1000, 32_000, 104_000*scale), Coalesced: uint64(scale * scale), Completed: 1000,
		}
	}
	return &sheet{
		Machine: host.Machine{Host: "box", Cores: 8, Kernel: "linux 6.8", Version: "v1"}, Cores: 4,
		Streams: []calibration.Row{
			{Load: calibration.Load{Streams: 100}, Asked: 5000, Achieved: 4999.6, CPU: 0.06, Reading: reading(1)},
			{Load: calibration.Load{Streams: 12000}, Asked: 600_000, Achieved: 412_345, CPU: 3.98, Reading: reading(19),
				BrokenRules: []string{"68.7 % of the requested load", "error p99 154µs", "0.36 % of frames coalesced",
					"1.20 % of requests failed: connection reset by peer"}},
		},
		Starts: []calibration.Row{
			{Load: calibration.Load{Starts: 30000}, Asked: 30000, Achieved: 29_990, CPU: 0.91, Reading: reading(2)},
			{Load: calibration.Load{Starts: 100000}, Asked: 100000, HeldUp: true, BrokenRules: []string{"it broke"}},
		},
	}
}

func TestCalibrationSheet(t *testing.T) {
	var b bytes.Buffer
	s := sampleSheet()
	none := &sheet{Cores: 1, Starts: s.Starts[1:]}
	err := errors.Join(s.writeLoads(&b), s.writeLimits(&b), none.writeLimits(&b), new(sheet).writeLoads(&b))
	if err != nil {
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
