package agentcmd

import (
	"os"
	"regexp"
	"strings"
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
	descriptions := make(chan *prometheus.Desc, 100)
	metrics(func() agent.Stats { return agent.Stats{} }).Describe(descriptions)
	close(descriptions)
	var has strings.Builder
	for d := range descriptions {
		has.WriteString(d.String() + "\n")
	}
	named := regexp.MustCompile(`spate_agent_\w+`).FindAllString(string(rules), -1)
	if len(named) == 0 {
		t.Error("no rule is about agents")
	}
	for _, name := range named {
		if !strings.Contains(has.String(), `"`+name+`"`) {
			t.Errorf("a rule names %s, which an agent does not have", name)
		}
	}
}
