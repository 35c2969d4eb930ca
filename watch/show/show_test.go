package show

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// For a silent agent the words say how long it has been silent.
func TestHealth(t *testing.T) {
	for _, test := range []struct {
		health spatev1.AgentHealth
		want   string
	}{
		{spatev1.AgentHealth_AGENT_HEALTH_BUSY, "busy"}, {spatev1.AgentHealth_AGENT_HEALTH_SILENT, "silent 4.3s"},
		{0, "n/a"},
	} {
		got := health(&spatev1.AgentStatus{Health: test.health, SilentFor: durationpb.New(4321 * time.Millisecond)})
		if got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// What others say cannot control a terminal, whichever row or line it is in.
func TestWordsAreHarmless(t *testing.T) {
	const evil = "\x1b[2J\r\u202e"
	agent := &spatev1.AgentInfo{Name: evil, Region: evil, Host: evil, Version: evil}
	run := &spatev1.RunSummary{RunId: evil, Verdict: evil, Submitter: evil}
	for _, cell := range append(
		Fleet([]*spatev1.AgentStatus{{Agent: agent}}).Rows[0].Cells,
		Runs([]*spatev1.RunSummary{run}, time.Now(), time.UTC).Rows[0].Cells...,
	) {
		for _, r := range cell {
			if r < ' ' || r == 0x202e {
				t.Errorf("%q", cell)
			}
		}
	}
}
