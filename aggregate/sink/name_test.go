package sink

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-load/spate/measure"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ measurement, key, want string }{
		{MeasurementWindow, "ttft_ms_p99", `spate_window_ttft_seconds{quantile="0.99"} * 0.001`},
		{MeasurementWindow, "ttft_ms_p99_9", `spate_window_ttft_seconds{quantile="0.999"} * 0.001`},
		{MeasurementToDate, "itl_ms_count", `spate_to_date_itl_seconds_count`},
		{MeasurementStage, "e2e_ms_mean", `spate_stage_e2e_seconds_mean * 0.001`},
		{MeasurementStage, "osl_tokens_p50", `spate_stage_osl_tokens{quantile="0.5"}`},
		{MeasurementWindow, "completed", `spate_window_completed`},
		{MeasurementToDate, "completed", `spate_to_date_completed_total`},
		{MeasurementObserverToDate, "errors_http_503", `spate_observer_to_date_errors_total{class="http_503"}`},
		{MeasurementStage, "errors_timeout", `spate_stage_errors{class="timeout"}`},
		{MeasurementStage, "steady_duration_s", `spate_stage_steady_duration_seconds`},
		{MeasurementAgent, "clock_offset_ms", `spate_agent_clock_offset_seconds * 0.001`},
		{MeasurementAgent, "cpu_cores", `spate_agent_cpu_cores`},
		{MeasurementToDate, "verdict", `spate_to_date_verdict`},
		{MeasurementServer, "per_second", `spate_server_per_second`},
		{MeasurementEvent, "text", `spate_event`},
	} {
		m := NameOf(c.measurement, &Field{Key: c.key, Kind: KindFloat})
		got := m.Prometheus()
		if label := m.Label(); label.Key != "" {
			got += fmt.Sprintf("{%s=%q}", label.Key, label.Value)
		}
		if m.Scale != 1 {
			got += fmt.Sprintf(" * %v", m.Scale)
		}
		if got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.key, c.measurement, got, c.want)
		}
	}
}

// Every field of the catalogue has a valid name, which no other field of the measurement has.
func TestNamesOfTheCatalogue(t *testing.T) {
	var fields []Field
	add := func(kind Kind, key string) { fields = append(fields, Field{Key: key, Kind: kind}) }
	for _, m := range measure.Metrics() {
		for _, end := range []string{"count", "mean", "std", "min", "max", "p50", "p90", "p95", "p99", "p99_9"} {
			add(KindFloat, m.Name+"_"+end)
		}
		add(KindBuckets, m.Name)
	}
	for _, c := range measure.Counters() {
		add(KindInt, c.String())
	}
	valid := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	for _, measurement := range []string{MeasurementWindow, MeasurementToDate} {
		names := map[string]string{}
		for _, field := range fields {
			if field.Kind == KindBuckets && !grows(measurement) {
				continue // shown of the stage so far only
			}
			m := NameOf(measurement, &field)
			name := m.Prometheus() + m.Label().Value
			if other, twice := names[name]; twice || !valid.MatchString(m.Prometheus()) || strings.Contains(m.Prometheus(), "_ms") {
				t.Errorf("%s is called %s, like %q", field.Key, name, other)
			}
			names[name] = field.Key
		}
	}
}
