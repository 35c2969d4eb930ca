package regions

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/netlab"
)

const worldPlan = `
name: world
seed: 7
regions: {eu: 0.5, us: 0.3, ap: 0.2}
targets: [{name: both, endpoints: [%q, %q], model: m}]
workloads: [{random: {isl: 40, osl: 4}}]
loads:
  - {rate: [50], arrival: constant, duration: 5s}
  - {concurrency: [10], requests: 120}
`

// regions are the one-way paths from each region to the coordinator in eu, and to the servers in eu and us.
var regions = map[string]struct{ coordinator, eu, us netlab.Path }{
	"eu": {oneWay(10), oneWay(5), oneWay(75)},
	"us": {oneWay(75), oneWay(75), oneWay(5)},
	"ap": {slow(120), slow(120), slow(90)},
}

// oneWay returns a path between two machines, with the jitter of a long one.
func oneWay(ms int) netlab.Path {
	delay := time.Duration(ms) * time.Millisecond
	return netlab.Path{Delay: delay, Jitter: delay / 20}
}

// slow returns a path with 20 Mbit/s.
func slow(ms int) netlab.Path {
	p := oneWay(ms)
	p.Bandwidth = 20e6
	return p
}

// Agents in three regions run one plan. They are found by gossip over the wide network with a key, and all have their
// own certificates. Each region has the share that was asked for and is measured separately, and its measured paths to
// the servers match the real ones.
func TestRegionsAreOneMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.key()
	gossip := func(h *netlab.Host) []string {
		return []string{"--wan", key, "--gossip-listen", h.Addr(gossipPort)}
	}
	w.startCoordinator(gossip(w.center)...)
	eu, us := w.serve("server-eu"), w.serve("server-us")
	for name, region := range map[string]string{"eu-1": "eu", "eu-2": "eu", "us-1": "us", "ap-1": "ap"} {
		h, ways := w.lab.Host(name), regions[region]
		w.lab.Link(h, eu.host, ways.eu)
		w.lab.Link(h, us.host, ways.us)
		w.join(site{name: name, region: region, to: ways.coordinator, from: ways.coordinator,
			flags: append(gossip(h), "--join", w.center.Addr(gossipPort))})
	}
	stranger := start(t, w.lab.Host("stranger"), 0, programs.Built.Agent, append(w.tls(certs.Agent, "stranger"), "--join",
		w.center.Addr(gossipPort),
		"--gossip-listen", w.lab.Host("stranger").Addr(gossipPort), w.key())...)
	r := w.run(fmt.Sprintf(worldPlan, eu.url, us.url))
	r.MustExit(0)
	result := r.mustBeComplete()
	for _, stage := range result.Stages {
		checkShares(t, stage)
	}
	checkPaths(t, result.Stages[0]) // in the closed loop both slots of ap send to one server
	if n := len(result.Run.Agents); n != 4 {
		t.Errorf("%d agents took part: %+v", n, result.Run.Agents)
	}
	stranger.Await(`no installed keys could decrypt the message`)
}

// checkShares compares what each region sent with what was asked for. Places are whole numbers of a cycle.
func checkShares(t *testing.T, s results.StageResult) {
	t.Helper()
	for i, want := range []struct {
		name   string
		agents int
		share  float64
	}{{"ap", 1, 0.2}, {"eu", 2, 0.5}, {"us", 1, 0.3}} {
		r := s.Regions[i]
		if r.Name != want.name || r.Agents != want.agents {
			t.Errorf("stage %d: region %d is %s with %d agents, want %s with %d", s.Index, i, r.Name,
				r.Agents, want.name, want.agents)
		}
		if of := want.share * float64(s.Requests.Started); math.Abs(float64(r.Requests.Started)-of) > 1 {
			t.Errorf("stage %d: region %s sent %d requests, its share is %.1f", s.Index, r.Name, r.Requests.Started, of)
		}
	}
	want := uint64(250)
	if s.Requests.Planned != nil {
		want = *s.Requests.Planned
	}
	if q := s.Requests; q.Started != want || q.Completed != want || *q.NeverSent != 0 {
		t.Errorf("stage %d: requests %+v, want %d", s.Index, q, want)
	}
}

// tardiness is how much later than the network allows something may be, on a busy machine. Measured times are logged.
const tardiness = time.Second

// checkPaths compares round trips and connect times, by region and endpoint, with the delays. Nothing is faster than
// its path, and the fastest is not much slower.
func checkPaths(t *testing.T, s results.StageResult) {
	t.Helper()
	for _, r := range s.Regions {
		ways := regions[r.Name]
		for i, way := range []netlab.Path{ways.eu, ways.us} {
			if r.Paths[i].RTT == nil || r.Paths[i].Connect == nil {
				t.Fatalf("stage %d: region %s, endpoint %d: no round trips", s.Index, r.Name, i)
			}
			least, most := 2*way.Delay, 2*(way.Delay+way.Jitter)+tardiness
			for what, d := range map[string]*histogram.Summary{"round trip": r.Paths[i].RTT,
				"connect": r.Paths[i].Connect} {
				if quickest := time.Duration(d.Min * 1e6); quickest < least-time.Millisecond || quickest > most {
					t.Errorf("stage %d: region %s, endpoint %d: %s of %v at least, the network needs %v to %v", s.Index,
						r.Name, i, what, quickest, least, most-tardiness)
				}
			}
			t.Logf("stage %d: %s to %s: round trip p50 %.1f ms of %d, connect p50 %.1f ms; the way takes %v", s.Index,
				r.Name, r.Paths[i].URL,
				r.Paths[i].RTT.P50, r.Paths[i].RTT.Count, r.Paths[i].Connect.P50, least)
		}
	}
}
