package plans

import (
	"fmt"
	"strings"
	"testing"
)

// Lines that start in the wrong column are the most frequent mistake in a plan.
func TestIndentationIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"targets:\n  - name: t\n     simulator: {}\n":            "mapping values are not allowed in this context: check the indentation",
		"workloads:\n  - random:\n      isl: 10\n     osl: 10\n": "did not find expected key: check the indentation",
		"targets:\n- name: t\nsimulator: {}\n":                   `unknown field "simulator"; it is a field of targets: check the indentation`,
		"workload:\n- random: {isl: 10, osl: 10}\n":              `unknown field "workload"; did you mean "workloads"?`,
		"targets:\n- endpoint: http://h:1\n":                     `unknown field "endpoint"; did you mean "endpoints"?`,
		"loads:\n- warmup: 5\n":                                  "expected a duration like 5s, or fields such as requests: 100, got a number",
		"targets:\n- name: t\n  labels: {a: 2026-01-01}\n":       "expected text, got a date: put it in quotes",
	} {
		if _, err := Load("p", []byte(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// People write large numbers with an exponent.
func TestWholeNumbersWithAnExponent(t *testing.T) {
	for value, want := range map[string]uint32{"1e4": 10_000, "2E3": 2000, "1e-1": 0, "1.5e3": 0, "1e10": 0, "-1e3": 0,
		".inf": 0} {
		plan, err := Load("p", fmt.Appendf(nil, `name: p
targets: [{name: t, simulator: {}}]
workloads: [{random: {isl: %s, osl: 1}}]
loads: [{rate: 1, requests: 1}]
`, value), Options{})
		if (err == nil) != (want > 0) || err == nil && plan.Proto().GetWorkloads()[0].GetRandom().GetIsl() != want {
			t.Errorf("%s: %v", value, err)
		}
	}
}
