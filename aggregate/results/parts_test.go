package results

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/internal/fixture"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// alone returns the result that requests would have if one agent had sent them all.
func alone(t testing.TB, requests []fixture.Request) StageResult {
	rec, own := fixture.StageRecord(0, 1), slices.Clone(requests)
	for i := range own {
		own[i].Agent = 0
	}
	return OfStage(merged(t, rec, fixture.Recorded(rec, own, fixture.EndWindow)), rec)
}

// The stage's numbers do not depend on which agents in which regions send the requests: they are as if one agent sent
// them all. A region's numbers are as if one agent sent all requests of the region.
func TestResultsDoNotDependOnTheSplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		agents := rapid.IntRange(1, 5).Draw(rt, "agents")
		rec := fixture.StageRecord(0, agents)
		for i, a := range rec.GetAgents() {
			a.Agent.Region = rapid.SampledFrom([]string{"", "eu", "us"}).Draw(rt, "region")
			if i > 0 && rapid.Bool().Draw(rt, "restarted") {
				a.Agent.Name, a.Incarnation = "a", uint64(i)+1
			}
		}
		requests := anyRequests(rt, agents)
		r, want := OfStage(merged(t, rec, fixture.Recorded(rec, requests, fixture.EndWindow)), rec), alone(t, requests)
		if diff := cmp.Diff(want.Latencies, r.Latencies); diff != "" {
			rt.Fatalf("latencies differ:\n%s", diff)
		}
		if diff := cmp.Diff(want.Requests, r.Requests); diff != "" ||
			!cmp.Equal(want.RequestThroughput, r.RequestThroughput) || !r.Complete {
			rt.Fatalf("requests differ, or are not complete (%v):\n%s", r.Missing, diff)
		}
		checkRegions(rt, t, rec, requests, r)
	})
}

// checkRegions compares each region's numbers with those of its requests alone.
func checkRegions(rt *rapid.T, t *testing.T, rec *spatev1.StageRecord, requests []fixture.Request, r StageResult) {
	for _, region := range r.Regions {
		own := slices.DeleteFunc(slices.Clone(requests), func(q fixture.Request) bool {
			return rec.GetAgents()[q.Agent].GetAgent().GetRegion() != region.Name
		})
		want := alone(t, own)
		if diff := cmp.Diff(want.Latencies, region.Latencies); diff != "" {
			rt.Fatalf("latencies of region %q:\n%s", region.Name, diff)
		}
		if diff := cmp.Diff(want.Regions[0].Paths, region.Paths); diff != "" {
			rt.Fatalf("connections of region %q:\n%s", region.Name, diff)
		}
		if n := region.Requests; n.Completed != want.Requests.Completed || n.Failed != want.Requests.Failed ||
			*region.OutputTokens != *want.OutputTokens {
			rt.Fatalf("region %q: %+v, want %+v", region.Name, n, want.Requests)
		}
	}
}

func TestStartSpread(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*spatev1.StageRecord, []*spatev1.Totals)
		want   *StartSpread
	}{
		"three agents": {func(_ *spatev1.StageRecord, all []*spatev1.Totals) {
			all[1].StartErrorNs, all[1].ClockUncertaintyNs = -500_000, 300_000
		}, &StartSpread{SpreadMs: 0.75, UncertaintyMs: 0.4, Earliest: "b", Latest: "a"}},
		"at once": {func(*spatev1.StageRecord, []*spatev1.Totals) {}, &StartSpread{UncertaintyMs: 0.2, Earliest: "a",
			Latest: "a"}},
		"one joined": {func(rec *spatev1.StageRecord, all []*spatev1.Totals) {
			rec.Agents[2].JoinedNs, all[2].StartErrorNs = 9e9, 9e9
		}, &StartSpread{UncertaintyMs: 0.2, Earliest: "a", Latest: "a"}},
		"two joined": {func(rec *spatev1.StageRecord, _ []*spatev1.Totals) {
			rec.Agents[1].JoinedNs, rec.Agents[2].JoinedNs = 1, 1
		}, nil},
		"one that never started": {func(_ *spatev1.StageRecord, all []*spatev1.Totals) {
			all[2].StartErrorNs, all[2].Counters = -3e9, &spatev1.Counters{}
		}, &StartSpread{UncertaintyMs: 0.2, Earliest: "a", Latest: "a"}},
	} {
		rec := fixture.StageRecord(0, 3)
		snapshots := fixture.Recorded(rec, fixture.SteadyRequests(3, 10), fixture.EndWindow)
		var totals []*spatev1.Totals
		for _, s := range snapshots {
			if s.GetTotals() != nil {
				totals = append(totals, s.GetTotals())
			}
		}
		c.change(rec, totals)
		r := OfStage(merged(t, rec, snapshots), rec)
		if diff := cmp.Diff(c.want, r.StartSpread); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		for i, a := range r.Agents {
			joined := rec.GetAgents()[i].GetJoinedNs() > 0
			if knows := !joined && totals[i].GetCounters().GetStarted() > 0; (a.JoinedS != nil) != joined ||
				(a.StartErrorMs != nil) != knows {
				t.Errorf("%s: agent %+v", name, a)
			}
		}
	}
}

func TestConnectionsByRegionAndEndpoint(t *testing.T) {
	rec := fixture.StageRecord(0, 2)
	all := []*spatev1.Snapshot{fixture.SnapshotOf(0, "a", 1, 1), fixture.SnapshotOf(0, "b", 1, 1)}
	all[0].Series = []*spatev1.Series{roundTrips(0, 5e6), roundTrips(1, 80e6)}
	all[1].Series = []*spatev1.Series{roundTrips(1, 1e6, 3e6)}
	r := OfStage(merged(t, rec, all), rec)
	if r.RTT.Count != 4 || r.RTT.Max != 80 || r.Regions[1].RTT.Count != 2 {
		t.Errorf("round trips %+v, of region %+v", r.RTT, r.Regions[1].RTT)
	}
	east, west := r.Regions[0].Paths, r.Regions[1].Paths
	if east[0].RTT.Max != 5 || east[1].RTT.Max != 80 || west[0].RTT != nil || west[1].RTT.Mean != 2 ||
		west[1].Connect != nil {
		t.Errorf("east %+v, west %+v", east, west)
	}
	if east[1].URL != "http://me:xxxxx@two" {
		t.Errorf("URL %s", east[1].URL)
	}
}

// roundTrips returns a series with connections to an endpoint that have the given round trips.
func roundTrips(endpoint uint32, ns ...int64) *spatev1.Series {
	h := histogram.New(histogram.Times)
	for _, v := range ns {
		h.Record(v)
	}
	return &spatev1.Series{
		Endpoint: endpoint, Counters: &spatev1.Counters{Connections: uint64(len(ns))},
		Distributions: []*spatev1.Distribution{h.Proto(spatev1.Metric_METRIC_RTT)},
	}
}
