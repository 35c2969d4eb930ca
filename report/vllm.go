package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var (
	//go:embed vllm.txt.tmpl
	vllmText     string
	vllmTemplate = template.Must(template.New("vllm").Funcs(template.FuncMap{
		"number": func(index uint32) uint32 { return index + 1 }, "oneLine": oneLine, "line": vllmLine,
		"metric": vllmMetric, "decimal": decimal,
	}).Parse(vllmText))
)

// writeVLLM writes a "Serving Benchmark Result" block for each stage, laid out and defined as by `vllm bench serve` of
// vLLM 0.26.
func writeVLLM(w io.Writer, r *results.Result) error {
	return vllmTemplate.Execute(w, results.InPlanTime(r).Stages)
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

// logHeader returns the header of a log in HdrHistogram's format, version 1.3. Times in the log are seconds since the
// run's start.
func logHeader(run *spatev1.RunRecord) []byte {
	begin := run.GetBeginTime().AsTime().UTC()
	seconds := fmt.Sprintf("%.3f", float64(begin.UnixMilli())/1e3)
	var b bytes.Buffer
	fmt.Fprintf(&b, "#[Run %s: tags are stage/metric, lines without one e2e; times in ns, tokens_per_frame in thousandths]\n", run.GetRunId())
	fmt.Fprintf(&b, "#[Histogram log format version 1.3]\n")
	fmt.Fprintf(&b, "#[BaseTime: %s (seconds since epoch)]\n", seconds)
	fmt.Fprintf(&b, "#[StartTime: %s (seconds since epoch), %s]\n", seconds, begin.Format(time.RFC3339))
	b.WriteString(`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"` + "\n")
	return b.Bytes()
}

// logStage appends a stage to a log: one line for each metric that has values, and one without a tag. start is the time
// from the run's start to the stage's, in seconds.
func logStage(b *bytes.Buffer, s *merge.Stage, result results.StageResult, start float64) error {
	fmt.Fprintf(b, "#[Stage %d, tags %d/...: %s, %s, %s]\n", result.Index+1, result.Index, result.Target,
		result.Workload, result.Load)
	length := *cmp.Or(result.DurationS, new(0.))
	for _, m := range measure.Metrics() {
		values := s.Values(m.ID)
		if values == nil || values.Count() == 0 {
			continue
		}
		encoded, err := values.AppendCompressedBase64(nil)
		if err != nil {
			return fmt.Errorf("stage %d: %s: %w", result.Index+1, m.Name, err)
		}
		line := fmt.Sprintf("%.3f,%.3f,%.3f,%s\n", start, length, float64(values.Max())/m.Unit.Scale(), encoded)
		fmt.Fprintf(b, "Tag=%d/%s,%s", result.Index, tagOf(m), line)
		if m.ID == untagged {
			b.WriteString(line)
		}
	}
	return nil
}

// untagged is the metric that is also written without a tag. Unless it is given a tag, HdrHistogram's log processor
// reads only lines without one, and fails if there are none.
const untagged = spatev1.Metric_METRIC_E2E

// tagOf returns a metric's name without the unit that it has in results.json, because a log has the values as recorded.
func tagOf(m measure.Metric) string {
	return strings.TrimSuffix(strings.TrimSuffix(m.Name, "_ms"), "_tokens")
}
