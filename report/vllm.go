package report

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/spate-load/spate/aggregate/results"
)

// VLLMLayout is a layout of vllm.txt.
type VLLMLayout string

// Layouts, by version of vLLM. The definitions are the same in both.
const (
	// VLLM026 is the layout of `vllm bench serve` as of vLLM 0.26.
	VLLM026 VLLMLayout = "0.26"
	// VLLM08 is the layout of benchmark_serving.py up to vLLM 0.8, which many published reports have.
	VLLM08 VLLMLayout = "0.8"
)

var (
	//go:embed vllm.txt.tmpl
	vllmText     string
	vllmTemplate = template.Must(template.New("vllm").Funcs(template.FuncMap{
		"number": func(index uint32) uint32 { return index + 1 }, "oneLine": oneLine, "line": vllmLine,
		"metric": vllmMetric, "decimal": decimal,
	}).Parse(vllmText))
)

// writeVLLM writes a "Serving Benchmark Result" block for each stage, laid out and defined as in vLLM's benchmark.
func writeVLLM(w io.Writer, r *results.Result, layout VLLMLayout) error {
	return vllmTemplate.Execute(w, map[string]any{"Stages": results.InPlanTime(r).Stages, "Old": layout == VLLM08})
}

// oneLine joins a text into one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// vllmLine formats a line of the block.
func vllmLine(label string, value any) string {
	return fmt.Sprintf("%-40s %-10s\n", label, texts(value)[0])
}

// vllmMetric formats the lines of a metric.
func vllmMetric(name string, v *results.VLLMMetric) string {
	var mean, median, p99 *float64
	if v != nil {
		mean, median, p99 = &v.Mean, &v.Median, &v.P99
	}
	return vllmLine("Mean "+name+" (ms):", mean) + vllmLine("Median "+name+" (ms):", median) +
		vllmLine("P99 "+name+" (ms):", p99)
}

// decimal returns a number that vLLM prints with decimals.
func decimal(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}
