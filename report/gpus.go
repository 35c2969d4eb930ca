package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/internal/table"
)

// gpusSection returns what exporters of GPU metrics reported for each stage, if a target names any.
func gpusSection(stages []results.StageResult) table.Section {
	var notes []string
	all := sectionOf(stages, "GPUs",
		"From the GPUs' exporters, over the measured part. Of busy, SM active and tensor active the lowest and the highest "+
			"mean of a GPU; of memory and throttled the highest.",
		[]string{"Stage", "GPUs", "Power (W)", "Energy (J)", "J per output token", "Output tokens per J", "Busy (%)",
			"SM active (%)", "Tensor active (%)", "Memory (GiB)", "Throttled (%)"},
		func(s results.StageResult, add func(...any)) {
			if s.GPUs != nil {
				add(gpusRow(s)...)
				for _, note := range s.GPUs.Notes {
					notes = append(notes, stageName(s)+": "+note)
				}
			}
		})
	all.Blocks = append(all.Blocks, table.Notes(notes)...)
	return all
}

// gpusRow returns a stage's row. A mean is there only if it is known of all GPUs.
func gpusRow(s results.StageResult) []any {
	g := s.GPUs
	perJoule := unknown
	if j := g.JoulesPerOutputToken; j != nil && *j > 0 {
		perJoule = strconv.FormatFloat(1 / *j, 'g', 4, 64)
	}
	memory := unknown
	if _, most, known := rangeOf(g.Devices, func(d *servermetrics.GPU) *float64 { return d.MemoryMiB }); known {
		memory = fmt.Sprintf("%.1f", most/1024)
	}
	throttled := unknown
	if _, most, known := rangeOf(g.Devices, func(d *servermetrics.GPU) *float64 { return d.Throttled }); known {
		throttled = fixedPercent(&most)
	}
	busy := func(d *servermetrics.GPU) *float64 { return d.Busy }
	smActive := func(d *servermetrics.GPU) *float64 { return d.SMActive }
	tensorActive := func(d *servermetrics.GPU) *float64 { return d.TensorActive }
	return []any{stageName(s), len(g.Devices), g.PowerW, g.EnergyJ, significant(g.JoulesPerOutputToken), perJoule,
		sharesOf(g.Devices, busy), sharesOf(g.Devices, smActive), sharesOf(g.Devices, tensorActive), memory, throttled}
}

// sharesOf formats the lowest and the highest of a share over all GPUs, in percent.
func sharesOf(devices []servermetrics.GPU, of func(*servermetrics.GPU) *float64) string {
	least, most, known := rangeOf(devices, of)
	switch {
	case !known:
		return unknown
	case fixedPercent(&least) == fixedPercent(&most):
		return fixedPercent(&least)
	}
	return fixedPercent(&least) + " to " + fixedPercent(&most)
}

// rangeOf returns the lowest and the highest of a value over all GPUs. known is false if one GPU does not have it.
func rangeOf(devices []servermetrics.GPU, of func(*servermetrics.GPU) *float64) (least, most float64, known bool) {
	least, most = math.Inf(1), math.Inf(-1)
	for i := range devices {
		v := of(&devices[i])
		if v == nil {
			return 0, 0, false
		}
		least, most = min(least, *v), max(most, *v)
	}
	return least, most, len(devices) > 0
}
