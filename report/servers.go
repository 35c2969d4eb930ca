package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/internal/table"
)

// hasGauges reports whether gauges were read.
func hasGauges(servers []servermetrics.ServerResult) bool {
	return slices.ContainsFunc(servers, func(s servermetrics.ServerResult) bool {
		return slices.ContainsFunc(s.Metrics, func(m servermetrics.ServerMetric) bool { return m.Kind == "gauge" })
	})
}

// significant formats a number with six significant digits.
func significant(v *float64) string { return table.Format("%.6g", v) }

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
	perJoule, memory := unknown, unknown
	if j := g.JoulesPerOutputToken; j != nil && *j > 0 {
		perJoule = strconv.FormatFloat(1 / *j, 'g', 4, 64)
	}
	if _, most := rangeOf(g.Devices, func(d servermetrics.GPU) *float64 { return d.MemoryMiB }); most != nil {
		memory = fmt.Sprintf("%.1f", *most/1024)
	}
	_, throttled := rangeOf(g.Devices, func(d servermetrics.GPU) *float64 { return d.Throttled })
	return []any{len(g.Devices), g.PowerW, g.EnergyJ, significant(g.JoulesPerOutputToken), perJoule,
		sharesOf(g.Devices, func(d servermetrics.GPU) *float64 { return d.Busy }),
		sharesOf(g.Devices, func(d servermetrics.GPU) *float64 { return d.SMActive }),
		sharesOf(g.Devices, func(d servermetrics.GPU) *float64 { return d.TensorActive }), memory,
		fixedPercent(throttled)}
}

// sharesOf formats the lowest and the highest of a share over all GPUs, in percent.
func sharesOf(devices []servermetrics.GPU, of func(servermetrics.GPU) *float64) string {
	least, most := rangeOf(devices, of)
	if from, to := fixedPercent(least), fixedPercent(most); from != to {
		return from + " to " + to
	}
	return fixedPercent(most)
}

// rangeOf returns the lowest and the highest of a value over all GPUs. Nil: one GPU does not have it.
func rangeOf(devices []servermetrics.GPU, of func(servermetrics.GPU) *float64) (least, most *float64) {
	for _, d := range devices {
		v := of(d)
		if v == nil {
			return nil, nil
		}
		least, most = new(min(*v, *cmp.Or(least, v))), new(max(*v, *cmp.Or(most, v)))
	}
	return least, most
}
