package script

import (
	"testing"
	"time"

	"github.com/spate-load/spate/plans"
)

// A seed always means the same faults at the same moments. These are some scripts as they were first drawn. A change to
// the draws changes them, and also the seeds in documents and in every test run.
func TestSeedsKeepTheirMeaning(t *testing.T) {
	for seed, want := range map[uint64]string{
		1:    "reassign, lease 6s, 3 agents, 46/s constant, 874 requests; 1.95s reset agent-0; 15.4s kill-coordinator for 7.75s; 17.25s kill-coordinator for 500ms; 17.35s partition agent-0 for 5.8s",
		3:    "degrade, lease 6s, 5 agents, 33/s poisson, 198 requests; messages: 46 % twice, 49 % held back, 12.8 % of acks lost",
		13:   "degrade, lease 7s, 4 agents, concurrency 13, 294 requests then concurrency 9 for 6s; 5.1s stop-agent agent-2 for 700ms; 7s delay-link agent-2 for 3.7s by 40ms±10ms",
		1710: "reassign, lease 6s, 5 agents, 73/s constant for 19s; 3.55s stop-agent agent-1 for 10.2s; 6.95s partition agent-1 for 12s; 9.85s kill-agent agent-4 for 450ms; 20.7s kill-agent agent-0 for 2.45s",
	} {
		if got := Draw(seed).String(); got != want {
			t.Errorf("seed %d: %s\nwant %s", seed, got, want)
		}
	}
}

// Every drawn plan can be run, all policies and faults occur, and about half of all runs must be complete.
func TestDrawsAreSound(t *testing.T) {
	const seeds = 2000
	promised, messages := 0, 0
	seen := map[string]int{}
	for seed := uint64(1); seed <= seeds; seed++ {
		s := Draw(seed)
		if _, err := plans.Load("plan.yaml", []byte(s.Plan("http://127.0.0.1:1")), plans.Options{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if n := len(s.Agents); n < 2 || n > 5 || len(s.Faults) > 4 || !s.Messages && len(s.Faults) == 0 ||
			s.Length() > 20*time.Second {
			t.Errorf("seed %d: %s", seed, s)
		}
		seen[s.Policy]++
		for _, f := range s.Faults {
			seen[string(f.Kind)]++
		}
		if s.Promised() {
			promised++
		}
		if s.Messages {
			messages++
		}
	}
	for _, kind := range []Kind{KillAgent, KillCoordinator, StopAgent, Partition, Reset, SlowLink, DelayLink,
		SlowTarget, FullDisk, "fail", "degrade", "reassign"} {
		if seen[string(kind)] < seeds/50 {
			t.Errorf("%s comes up %d times", kind, seen[string(kind)])
		}
	}
	if promised < seeds/3 || promised > seeds*2/3 || messages < seeds/10 {
		t.Errorf("%d of %d must be complete, %d are of messages", promised, seeds, messages)
	}
}

func TestPromises(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		policy string
		faults []Fault
		want   bool
	}{
		"nothing":                  {"fail", nil, true},
		"coordinator killed":       {"fail", []Fault{{Kind: KillCoordinator, For: 3 * second}}, true},
		"for as long as the lease": {"fail", []Fault{{Kind: KillCoordinator, For: 9 * second}}, false},
		"killed twice, each short": {"degrade", []Fault{{Kind: KillCoordinator, For: 3 * second},
			{Kind: KillCoordinator, At: 5 * second, For: 3 * second}}, false},
		"killed twice, far apart": {"degrade", []Fault{{Kind: KillCoordinator, For: 3 * second},
			{Kind: KillCoordinator, At: 8 * second, For: 3 * second}}, true},
		"partition longer than a silence": {"fail", []Fault{{Kind: Partition, For: 3 * second}}, false},
		"which degrade bears":             {"degrade", []Fault{{Kind: Partition, For: 3 * second}}, true},
		"and reassign":                    {"reassign", []Fault{{Kind: Partition, For: 3 * second}}, true},
		"of several agents": {"degrade", []Fault{{Kind: Partition, For: 3 * second},
			{Kind: Partition, At: 3 * second, For: 3 * second, Agent: 1}}, true},
		"of one, one behind the other": {"degrade",
			[]Fault{{Kind: Partition, For: 3 * second}, {Kind: StopAgent, At: 3 * second, For: 3 * second}}, false},
		"agent killed": {"reassign", []Fault{{Kind: KillAgent}}, false},
		"disk full":    {"degrade", []Fault{{Kind: FullDisk}}, false},
		"slow": {"fail", []Fault{{Kind: SlowLink, For: 9 * second},
			{Kind: DelayLink, For: 9 * second}, {Kind: SlowTarget, For: 9 * second}, {Kind: Reset}}, true},
	} {
		s := Script{Policy: c.policy, Lease: 8 * second, Agents: make([]Agent, 2), Faults: c.faults}
		if got := s.Promised(); got != c.want {
			t.Errorf("%s under %s: promised %v", name, c.policy, got)
		}
	}
}
