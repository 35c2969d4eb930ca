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
		{MeasurementWindow, "completed", `spate_window_completed`},
		{MeasurementToDate, "completed", `spate_to_date_completed_total`},
		{MeasurementToDate, "errors_http_503", `spate_to_date_errors_total{class="http_503"}`},
		{MeasurementStage, "errors_timeout", `spate_stage_errors{class="timeout"}`},
		{MeasurementStage, "steady_duration_s", `spate_stage_steady_duration_seconds`},
		{MeasurementAgent, "clock_offset_ms", `spate_agent_clock_offset_seconds * 0.001`},
		{MeasurementAgent, "cpu_cores", `spate_agent_cpu_cores`},
		{MeasurementToDate, "verdict", `spate_to_date_verdict`},
		{MeasurementServer, "per_second", `spate_server_per_second`},
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
