package report

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
)

// A stage's GPUs are one row. What is not known of one GPU is not known of all.
func TestGPUs(t *testing.T) {
	stage := results.StageResult{Index: 2, GPUs: &servermetrics.GPUResult{
		Devices: []servermetrics.GPU{
			{Busy: ptr(0.9), MemoryMiB: ptr(40960.0), SMActive: ptr(0.5)},
			{Busy: ptr(1.0), MemoryMiB: ptr(81920.0)},
		},
		PowerW: ptr(1000.0), EnergyJ: ptr(60000.0), JoulesPerOutputToken: ptr(0.25), Notes: []string{"values are old"},
	}}
	var b strings.Builder
	gpusSection([]results.StageResult{{Index: 1}, stage}).Markdown(&b)
	for _, want := range []string{
		"| 2 | 1000.00 | 60000.00 | 0.25 | 4 | 90.00 to 100.00 | n/a | n/a | 80.0 | n/a |", "values are old",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if s := gpusSection([]results.StageResult{{}}); s.Title != "" {
		t.Errorf("without exporters: %+v", s)
	}
}
