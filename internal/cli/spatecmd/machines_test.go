package spatecmd

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

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

func onMachines(t *testing.T, lines string) (words, fits string) {
	t.Helper()
	plan, err := (&sourceFlags{}).load("p",
		[]byte("name: m\ntargets: [{name: t, endpoints: [\"http://h\"], model: m}]\nworkloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [50], duration: 1s}]\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	e := embedded{{"eu", 1}, {"us", 1}}
	return machineWords(plan), errorText(e.fits(plan))
}

func TestMachineWords(t *testing.T) {
	for lines, want := range map[string][2]string{
		"": {"", ""},
		"regions: {us: 1, eu: 2}\nobservers: {rate: 0.5}\non_agent_loss: reassign": {"regions: eu 66.7 %, us 33.3 %; an observer in each region: 0.5 req/s; on_agent_loss: reassign", ""},
		"observers: {}": {"an observer in each region: concurrency 1", ""},
		"regions: {eu: 0.5, asia: 0.5}": {"regions: asia 50 %, eu 50 %",
			"p:5:10: regions: no embedded agent is in asia: give --agents asia=1,eu=1 to try the plan on this machine, " +
				"or --coordinator to run it on agents of these regions"},
		"regions: {sa: 1}\nobservers: {}": {"regions: sa 100 %; an observer in each region: concurrency 1",
			"p:5:10: regions: no embedded agent is in sa: give --agents sa=2 to try the plan " +
				"on this machine, or --coordinator to run it on agents of these regions"},
	} {
		words, fits := onMachines(t, lines)
		if words != want[0] || fits != want[1] {
			t.Errorf("%s\ngot  %s\n     %s\nwant %s\n     %s", lines, words, fits, want[0], want[1])
		}
	}
}

func TestTeamWords(t *testing.T) {
	team := func(who ...string) (agents []*spatev1.AgentInfo) {
		for _, w := range who {
			name, region, _ := strings.Cut(w, "@")
			agents = append(agents, &spatev1.AgentInfo{Name: name, Region: region})
		}
		return agents
	}
	for want, agents := range map[string][]*spatev1.AgentInfo{
		"":                                nil,
		"a, b":                            team("a", "b"),
		"a, b ":                           team("a@eu", "b@eu"),
		"eu (b, c), us (a)":               team("a@us", "b@eu", "c@eu"),
		"no region (a), eu (b)":           team("a", "b@eu"),
		"eu (7), us (h)":                  team("a@eu", "b@eu", "c@eu", "d@eu", "e@eu", "f@eu", "g@eu", "h@us"),
		"a, b, c, d, e, f and 1 more":     team("a", "b", "c", "d", "e", "f", "g"),
		"no region (a), asia (c), eu (b)": team("a", "b@eu", "c@asia"),
	} {
		if got := teamWords(agents); got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAgentChanged: changes of agents are shown, losses even with --quiet.
func TestAgentChanged(t *testing.T) {
	lost := &spatev1.RunEvent{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{
		Agent: &spatev1.AgentInfo{Name: "eu-1", Region: "eu"}, Reason: "it was silent for 3.5 s",
		Consequence: "taken over from second 16 on",
	}}}
	joined := &spatev1.RunEvent{Event: &spatev1.RunEvent_AgentChanged{AgentChanged: &spatev1.AgentChanged{Agent: &spatev1.AgentInfo{Name: "b"}, Joined: true}}}
	const loss = "! agent eu-1 (eu) was lost (it was silent for 3.5 s): taken over from second 16 on\n"
	for quiet, want := range map[bool]string{false: loss + "  agent b joined\n", true: loss} {
		var out strings.Builder
		v := newView(&out, quiet)
		v.show(lost)
		v.show(joined)
		if out.String() != want {
			t.Errorf("quiet %v: %q, want %q", quiet, out.String(), want)
		}
	}
}

func TestAgentsAsJSON(t *testing.T) {
	var out strings.Builder
	err := writeJSON(&out, agentsAsJSON([]*spatev1.AgentStatus{
		{Agent: &spatev1.AgentInfo{Name: "found"}, Health: spatev1.AgentHealth_AGENT_HEALTH_FOUND},
		{
			Agent: &spatev1.AgentInfo{
				Name: "busy", Region: "eu", Weight: 2, MaxRate: 50, WeightGiven: true,
				Capacity: &spatev1.Capacity{Streams: 10, FramesPerSecond: 500.5},
			},
			Health:    spatev1.AgentHealth_AGENT_HEALTH_BUSY,
			Heartbeat: &spatev1.Heartbeat{CpuCores: 0.5, ClockOffsetNs: -5, ClockUncertaintyNs: 1000},
			SilentFor: durationpb.New(250 * time.Millisecond), Address: "10.0.0.2:34567",
		},
	}))
	want := [2]string{
		`"name": "found", "region": null, "health": "found", "weight": null, "cores": null, "max_streams": null, "max_rate": null, "in_flight": null, "cpu_cores": null, "clock_offset_ns": null, "clock_uncertainty_ns": null, "weight_given": null, "capacity": null, "silent_for_seconds": null, "address": null, "host": null, "version": null`,
		`"name": "busy", "region": "eu", "health": "busy", "weight": 2, "cores": null, "max_streams": null, "max_rate": 50, "in_flight": 0, "cpu_cores": 0.5, "clock_offset_ns": -5, "clock_uncertainty_ns": 1000, "weight_given": true, "capacity": { "streams": 10, "frames_per_second": 500.5, "starts_per_second": null, "measured_at": null }, "silent_for_seconds": 0.25, "address": "10.0.0.2:34567", "host": null, "version": null`,
	}
	if got := strings.Join(strings.Fields(out.String()), " "); err != nil || got != "[ { "+want[0]+" }, { "+
		want[1]+" } ]" {
		t.Errorf("%v: %s", err, got)
	}
}

// TestHealthWords: for a silent agent the words say how long it has been silent.
func TestHealthWords(t *testing.T) {
	for _, test := range []struct {
		health spatev1.AgentHealth
		want   string
	}{
		{spatev1.AgentHealth_AGENT_HEALTH_BUSY, "busy"}, {spatev1.AgentHealth_AGENT_HEALTH_SILENT, "silent 4.3s"},
		{0, "n/a"},
	} {
		if got := healthWords(&spatev1.AgentStatus{Health: test.health,
			SilentFor: durationpb.New(4321 * time.Millisecond)}); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
