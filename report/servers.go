package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spate-load/spate/aggregate/servermetrics"
)

// hasGauges reports whether gauges were read.
func hasGauges(servers []servermetrics.ServerResult) bool {
	return slices.ContainsFunc(servers, func(s servermetrics.ServerResult) bool {
		return slices.ContainsFunc(s.Metrics, func(m servermetrics.ServerMetric) bool { return m.Kind == "gauge" })
	})
}

// significant formats a number with six significant digits.
func significant(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'g', 6, 64)
}

// quantileCell formats a quantile of a histogram with the bounds of its bucket.
func quantileCell(q *servermetrics.ServerQuantile, format func(*float64) string) string {
	switch {
	case q == nil:
		return unknown
	case q.High == nil:
		return "above " + format(q.Low)
	case q.Low == nil:
		return "up to " + format(q.High)
	}
	return fmt.Sprintf("%s (%s to %s)", format(q.Value), format(q.Low), format(q.High))
}

// gpuCells returns what is known of a stage's GPUs. A mean is there only if it is known of all GPUs.
func gpuCells(g *servermetrics.GPUResult) []any {
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
	return []any{len(g.Devices), g.PowerW, g.EnergyJ, significant(g.JoulesPerOutputToken), perJoule,
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
