package agentcmd

import (
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spate-load/spate/agent"
)

// Every metric of an agent that an alert rule names is one that it has.
func TestAlertsNameMetrics(t *testing.T) {
	rules, err := os.ReadFile("../../../deployments/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	add := func(name, _ string, _ float64, _ prometheus.Labels) { has[name] = true }
	metrics(func() agent.Stats { return agent.Stats{ClockKnown: true} })(add, add)
	named := regexp.MustCompile(`spate_agent_\w+`).FindAllString(string(rules), -1)
	if len(named) == 0 {
		t.Error("no rule is about agents")
	}
	for _, name := range named {
		if !has[name] {
			t.Errorf("a rule names %s, which an agent does not have", name)
		}
	}
}
