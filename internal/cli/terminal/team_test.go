package terminal

import (
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
	joined := &spatev1.RunEvent{
		Event: &spatev1.RunEvent_AgentChanged{
			AgentChanged: &spatev1.AgentChanged{Agent: &spatev1.AgentInfo{Name: "b"}, Joined: true},
		},
	}
	const loss = "! agent eu-1 (eu) was lost (it was silent for 3.5 s): taken over from second 16 on\n"
	for quiet, want := range map[bool]string{false: loss + "  agent b joined\n", true: loss} {
		var out strings.Builder
		v := NewView(&out, quiet)
		v.Show(lost)
		v.Show(joined)
		if out.String() != want {
			t.Errorf("quiet %v: %q, want %q", quiet, out.String(), want)
		}
	}
}
