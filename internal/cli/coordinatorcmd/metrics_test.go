package coordinatorcmd

import (
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-load/spate/coordinator"
)

// Every metric of a coordinator that an alert rule names is one that it has.
func TestAlertsNameMetrics(t *testing.T) {
	rules, err := os.ReadFile("../../../deployments/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	add := func(name, _ string, _ float64, _ prometheus.Labels) { has[name] = true }
	metrics(func() coordinator.Stats { return coordinator.Stats{} })(add, add)
	named := regexp.MustCompile(`spate_coordinator_\w+`).FindAllString(string(rules), -1)
	if len(named) < 5 {
		t.Errorf("the rules name only %v", named)
	}
	for _, name := range named {
		if !has[name] {
			t.Errorf("a rule names %s, which it does not have", name)
		}
	}
}
