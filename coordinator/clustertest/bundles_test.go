package clustertest_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/coordinator/clustertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// deliverAll delivers a snapshot of each agent, all at once.
func deliverAll(t *testing.T, snapshots map[*clustertest.Agent]*spatev1.Snapshot) {
	t.Helper()
	var all sync.WaitGroup
	for a, s := range snapshots {
		all.Go(func() {
			if m := a.Deliver(s); m.GetRefused() != "" {
				t.Errorf("%s: refused: %s", a.Name, m.GetRefused())
			}
		})
	}
	all.Wait()
}

// What the agents of a relay measured comes in bundles: exact as a whole and by region, with all that is known of
// single agents but their latencies.
func TestARelayBundlesWhatItsAgentsMeasured(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	a, b, direct := r.Agent("a"), r.Agent("b"), h.Agent("c")
	id := h.SubmitPlan(3, clustertest.PlanOf(`{concurrency: [3], requests: 60}`))
	agents := []*clustertest.Agent{a, b, direct}
	for _, one := range agents {
		one.Apply()
	}
	for _, one := range agents {
		one.Armed()
	}
	for w := range uint32(3) {
		snapshots := map[*clustertest.Agent]*spatev1.Snapshot{}
		for _, one := range agents {
			if snapshots[one] = one.Snapshot(w); w == 2 {
				one.Sequence--
				snapshots[one] = one.Last(w)
			}
		}
		deliverAll(t, snapshots)
	}
	if e := h.End(id); !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
	if s := h.c.Stats(); s.Snapshots != 9 || s.Refused+s.Duplicates != 0 {
		t.Errorf("%+v", s)
	}
	bundles, of := 0, map[string]int{}
	l := h.Fetch(id)
	rec, err := l.Stages()
	if err != nil {
		t.Fatal(err)
	}
	err = l.Snapshots(0, func(s *spatev1.Snapshot) error {
		k := s.GetKey()
		if s.GetMerged() != nil {
			if bundles++; k.GetAgent() != "relay eu-relay of eu" || k.GetSequence() != uint64(bundles) || merge.InResult(rec[0], s) {
				t.Errorf("bundle %d is %v", bundles, k)
			}
			return nil
		}
		of[k.GetAgent()] += len(s.GetTakenOut())
		return nil
	})
	if err != nil || bundles != 3 || of["a"] == 0 || of["b"] != of["a"] || of["c"] != 0 {
		t.Errorf("%d bundles of %v, %v", bundles, of, err)
	}
	stage := h.Result(id).Stages[0]
	if n := stage.TTFT.Count; n != 9 || stage.Requests.Completed != 9 {
		t.Errorf("%d values of %d requests", n, stage.Requests.Completed)
	}
	for _, one := range stage.Agents {
		if known := one.TTFT != nil; known != (one.Name == "c") || one.Requests.Completed != 3 {
			t.Errorf("agent %s: TTFT known %v, %d requests", one.Name, known, one.Requests.Completed)
		}
	}
}

// Whatever is cut when, each snapshot counts once: agents send again what was not acked, whether the ledger has it in a
// bundle or not.
func TestBundlesCountOnce(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	h := start(t)
	r := h.Through("eu-relay")
	agents := []*clustertest.Agent{r.Agent("a"), r.Agent("b"), r.Agent("c")}
	id := h.SubmitPlan(3, clustertest.PlanOf(`{concurrency: [3], requests: 600}`))
	for _, a := range agents {
		a.Apply()
	}
	for _, a := range agents {
		a.Armed()
	}
	const windows = 6
	links, duplicates := uint64(1), uint64(0)
	for w := range uint32(windows) {
		snapshots := map[*clustertest.Agent]*spatev1.Snapshot{}
		for _, a := range agents {
			if snapshots[a] = a.Snapshot(w); w == windows-1 {
				a.Sequence--
				snapshots[a] = a.Last(w)
			}
		}
		how := random.IntN(3) // 0: nothing breaks, 1: at once, 2: when the ledger has all of it
		if how > 0 && w < windows-1 {
			for a, s := range snapshots {
				if err := a.Push.Send(&spatev1.PushRequest{Snapshot: s}); err != nil {
					t.Fatal(err)
				}
			}
			if how == 2 {
				clustertest.Eventually(t, "the ledger has the window", func() bool { return h.c.Stats().Snapshots == uint64(3*w+3) })
				duplicates += 3
			}
			r.Cut()
			links++
			r.AwaitLinks(links)
			again := map[*clustertest.Agent]*spatev1.Snapshot{}
			for i, a := range agents {
				back, err := r.Resume(a)
				if err != nil {
					t.Fatal(err)
				}
				again[back], agents[i] = snapshots[a], back
			}
			snapshots = again
		}
		deliverAll(t, snapshots)
	}
	if e := h.End(id); !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
	stage := h.Result(id).Stages[0]
	if n := stage.TTFT.Count; n != 3*windows || len(stage.Missing) > 0 {
		t.Errorf("%d values, want %d; missing: %v", n, 3*windows, stage.Missing)
	}
	if s := h.c.Stats(); s.Refused > 0 || s.Duplicates < duplicates {
		t.Errorf("%+v", s)
	}
}
