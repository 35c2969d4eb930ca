package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// Requests that several agents may have had are dealt to them as the agents' own numbers say, if that is possible.
func TestOverdueRequestsAreDealtToAgentsThatMayHaveHadThem(t *testing.T) {
	const first, second, both = agentSet(1), agentSet(2), agentSet(3)
	for name, c := range map[string]struct {
		overdue []agentSet
		says    string // a part of the message; empty: nothing is wrong
	}{
		"all may be of both":       {slices.Repeat([]agentSet{both}, 8), ""},
		"one more":                 {slices.Repeat([]agentSet{both}, 9), "agent a, b stood still and did not send 9"},
		"as many as each had":      {append(slices.Repeat([]agentSet{first}, 3), second, second, both, both, both), ""},
		"more than the first had":  {slices.Repeat([]agentSet{first}, 4), "agent a stood still and did not send 4"},
		"more than the second had": {slices.Repeat([]agentSet{second}, 6), "agent b stood still and did not send 6"},
	} {
		three, five := uint64(3), uint64(5)
		s := &stage{judge: &judge{}, overdue: c.overdue,
			Stage: &Stage{Agents: []Agent{{Name: "a", NeverSent: &three}, {Name: "b", NeverSent: &five}}}}
		s.judgeOverdue()
		if said := strings.Join(s.Wrong, "\n"); (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: %q, want %q", name, said, c.says)
		}
	}
}

// Only an agent that ended its load at the end of its lease explains that a run continues after a stage that failed,
// and only if a fault was that long ago.
func TestARunContinuesAfterAStageWhoseLeaseEnded(t *testing.T) {
	const lease = 10 * time.Second
	for name, c := range map[string]struct {
		failure string
		struck  Instant
		wrong   bool
	}{
		"its lease ended":            {"the coordinator was gone for longer than the lease of 10s", 0, false},
		"before its lease could end": {"the coordinator was gone for longer than the lease of 10s", 11e9, true},
		"another lease":              {"the coordinator was gone for longer than the lease of 9s", 0, true},
		"another failure":            {"lost: silent", 0, true},
	} {
		s := &stage{Stage: &Stage{Agents: []Agent{{Name: "agent-0", Failure: &c.failure}}}, judge: &judge{
			Evidence: &Evidence{Script: script.Script{Lease: lease}, Results: Results{Stages: make([]Stage, 2)},
				Notes: Notes{End: 20e9, Struck: []Strike{{Kind: script.StopAgent, Span: Span{From: c.struck}}}}},
			Verdict: Verdict{Outcome: "failed"},
		}}
		s.judgeWords()
		if got := len(s.Wrong) > 0; got != c.wrong {
			t.Errorf("%s: %q", name, s.Wrong)
		}
	}
}

// A closed loop's result must name the seconds in which a lost agent still drained and had a free slot.
func TestTheSecondsOfALostAgentWithAFreeSlotAreNamed(t *testing.T) {
	three, six := 3.0, 6.0
	for name, c := range map[string]struct {
		lasts  time.Duration // of the load
		unsent *float64
		from   float64
		wrong  bool
	}{
		"named":                        {20 * time.Second, &three, 12, false},
		"not named":                    {20 * time.Second, nil, 12, true},
		"named too late":               {20 * time.Second, &six, 12, true},
		"lost at once":                 {20 * time.Second, nil, 4, false},
		"the time was over":            {4 * time.Second, nil, 12, false},
		"the time was over somewhat":   {6 * time.Second, nil, 12, true},
		"named when the time was over": {6 * time.Second, &three, 12, false},
	} {
		rows := []*Row{{Agent: "a", StartNs: 2e9, EndNs: 3e9}, {Agent: "a", StartNs: 25e8, EndNs: 11e9},
			{Agent: "b", StartNs: 9e9, EndNs: 10e9}}
		a := Agent{Name: "a", Loss: &Loss{FromS: c.from, UnsentFromS: c.unsent}}
		s := &stage{judge: &judge{}, Stage: &Stage{}, load: script.Load{Concurrency: 3, For: c.lasts}, rows: rows}
		s.judgeIdle(a)
		if got := len(s.Wrong) > 0; got != c.wrong {
			t.Errorf("%s: %q", name, s.Wrong)
		}
	}
}

// A part that was lost up to the end, because no agent was left to take it over, accounts for all of the rest.
func TestWhatIsLostUpToTheEndAccountsForTheRest(t *testing.T) {
	ten := 10.0
	for lacks, wrong := range map[int]bool{154: false, 600: true} {
		s := &stage{judge: &judge{Evidence: &Evidence{}, Verdict: Verdict{Outcome: "done"}},
			load: script.Load{Rate: 24, Arrival: "poisson", For: 19 * time.Second},
			Stage: &Stage{Agents: []Agent{{Loss: &Loss{Share: 1, FromS: 4}},
				{Loss: &Loss{Share: 0.25, FromS: 1, ToS: &ten, TakenOver: true}}}}}
		s.judgeShares(make([]uint64, lacks))
		if got := len(s.Wrong) > 0; got != wrong {
			t.Errorf("%d requests lack: %q", lacks, s.Wrong)
		}
	}
}

// Nothing is promised for a fault that lasted much longer than its script says.
func TestNothingIsPromisedIfAFaultOverran(t *testing.T) {
	faults := []script.Fault{{Kind: script.KillCoordinator, For: 2 * time.Second}}
	for lasted, promised := range map[Instant]bool{2e9: true, 2.9e9: true, 3.1e9: false} {
		j := &judge{Evidence: &Evidence{Script: script.Script{Policy: "degrade", Lease: 10 * time.Second, Faults: faults,
			Agents: make([]script.Agent, 2)},
			Notes: Notes{Struck: []Strike{{Kind: script.KillCoordinator, Span: Span{From: 5e9, To: 5e9 + lasted}}}}}}
		if got := j.promised(); got != promised {
			t.Errorf("a fault of 2s lasted %v: promised %v", time.Duration(lasted), got)
		}
	}
}
