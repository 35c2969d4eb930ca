package runcmd

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestEmbedded(t *testing.T) {
	for text, want := range map[string]string{
		"3":            "3: embedded-1@ embedded-2@ embedded-3@",
		"eu=2,us=1":    "eu=2,us=1: eu-1@eu eu-2@eu us-1@us",
		"eu = 1, us=1": "eu=1,us=1: eu-1@eu us-1@us",
		"0":            "--agents 0: want 1 to 1000",
		"-1":           "--agents -1: want 1 to 1000",
		"eu=1,us=0":    "--agents eu=1,us=0: want 1 to 1000",
		"eu=1000,us=1": "--agents eu=1000,us=1: want 1 to 1000",
		"eu=1,eu=2":    `"eu=2": the region is named twice`,
		"many":         `"many": want a number, or numbers by region such as eu=2,us=1`,
		"eu=":          `"eu=": want a number, or numbers by region such as eu=2,us=1`,
		"=2":           `"=2": want a number, or numbers by region such as eu=2,us=1`,
		"eu=2,":        `"": want a number, or numbers by region such as eu=2,us=1`,
	} {
		var e embedded
		err := e.Set(text)
		if err == nil {
			err = e.check()
		}
		got := errorText(err)
		if err == nil {
			got = e.String() + ":"
			for _, n := range e.names() {
				got += " " + n.name + "@" + n.region
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestEmbeddedAgain: Set parses what String writes, and each agent has a unique name.
func TestEmbeddedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for _, region := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,5}`), 1, 5,
			rapid.ID).Draw(t, "regions") {
			parts = append(parts, region+"="+rapid.StringMatching(`[1-9]`).Draw(t, "count"))
		}
		text := strings.Join(parts, ",")
		var e embedded
		if err := e.Set(text); err != nil || e.String() != text {
			t.Fatalf("%q became %q, %v", text, e.String(), err)
		}
		seen := map[string]bool{}
		for _, n := range e.names() {
			seen[n.name] = true
		}
		if len(e.names()) != e.total() || len(seen) != e.total() {
			t.Fatalf("%q: %v", text, e.names())
		}
	})
}

// A plan runs only if each of its regions has an agent, and each agent a region of the plan.
func TestAgentsMustFitThePlan(t *testing.T) {
	for lines, want := range map[string]string{
		"":                               "",
		"regions: {us: 1, eu: 2}":        "",
		"agents: {count: 2}":             "",
		"agents: {count: 3}":             "p:5:9: agents: --agents eu=1,us=1 are not those of the plan: give --agents 3",
		"agents: {labels: {region: eu}}": "p:5:9: agents: --agents eu=1,us=1 are not those of the plan: give --agents eu=2",
		"regions: {eu: 0.5, asia: 0.5}":  "p:5:10: regions: --agents eu=1,us=1 are not those of the plan: give --agents asia=1,eu=1",
		"regions: {sa: 1}":               "p:5:10: regions: --agents eu=1,us=1 are not those of the plan: give --agents sa=2",
	} {
		plan, err := plans.Load("p", []byte(`name: m
targets: [{name: t, endpoints: ["http://h"], model: m}]
workloads: [{random: {isl: 1, osl: 1}}]
loads: [{rate: [50], duration: 1s, max_in_flight: 2}]
`+lines), plans.Options{})
		if err != nil {
			t.Fatal(err)
		}
		agents := embedded{{"eu", 1}, {"us", 1}}
		got := agents.fits(plan, false)
		if (got == nil) != (want == "") || got != nil && !strings.HasPrefix(got.Error(), want+" to try the plan") {
			t.Errorf("%s\ngot  %v\nwant %s", lines, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestResumeTakesItsAgents: without --agents, a run is resumed with as many agents of each region as it had.
func TestResumeTakesItsAgents(t *testing.T) {
	if got := NewResume("").Flags().Lookup("agents").Value.String(); got != "" {
		t.Errorf("--agents is %q before it is given", got)
	}
	had := byRegion([]*spatev1.AgentInfo{{Region: "eu"}, {Region: "us"}, {Region: "eu"}}, (*spatev1.AgentInfo).GetRegion)
	if got := had.String(); got != "eu=2,us=1" {
		t.Errorf("agents %s", got)
	}
}
