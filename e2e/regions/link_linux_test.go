package regions

import (
	"fmt"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/netlab"
)

// rowsPlan makes rows with many gaps between tokens.
const rowsPlan = `
name: rows
on_agent_loss: degrade
targets: [{name: server, endpoints: [%q], model: m}]
workloads: [{random: {isl: 20, osl: 60}}]
loads:
  - {rate: [80], arrival: constant, duration: 8s}
`

// An agent whose link to the coordinator is too slow for its data, mostly rows, is not lost because of that data. It
// falls behind, sends the rest after the stage, and nothing is missing.
func TestSlowLinkLosesNoAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startCoordinator()
	s := w.serve("server")
	thin := oneWay(40)
	thin.Bandwidth = 64e3
	w.join(site{name: "quick", region: "eu", to: oneWay(5), from: oneWay(5)})
	h := w.join(site{name: "thin", region: "us", to: thin, from: oneWay(40)})
	w.awaitAgents()
	r := w.run(fmt.Sprintf(rowsPlan, s.url))
	r.MustExit(0)
	result := r.mustBeComplete()
	if q := result.Stages[0].Requests; q.Started != 8*80 || q.Completed != q.Started {
		t.Errorf("requests %+v", q)
	}
	for _, text := range changes(w.events()) {
		t.Errorf("it was said: %s", text)
	}
	t.Logf("%d bytes over 64 kbit/s; %d rows dropped", w.lab.Count(h, w.center).Bytes, result.Stages[0].DroppedRecords)
}

// A link on which UDP is blocked between two gossip members has no effect: gossip works over TCP.
func TestBlockedUDPDoesNoHarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.key()
	gossip := func(h *netlab.Host) []string {
		return []string{key, "--gossip-listen", h.Addr(gossipPort)}
	}
	w.startCoordinator(gossip(w.center)...)
	s := w.serve("server")
	for _, name := range []string{"a", "b"} {
		h := w.lab.Host(name)
		w.lab.BlockUDP(h, w.center)
		w.join(site{name: name, to: oneWay(20), from: oneWay(20),
			flags: append(gossip(h), "--join", w.center.Addr(gossipPort))})
	}
	w.lab.Heal(w.lab.Host("b"), w.center)
	w.awaitAgents()
	r := w.run(fmt.Sprintf(lossPlan, "fail", s.url, 2))
	r.MustExit(0)
	r.mustBeComplete()
}

// Under fail, a second without any agent costs nothing. Five seconds are a loss, as for a single agent: the run ends
// and says so. Under degrade the same five seconds lose nothing.
func TestCoordinatorAlone(t *testing.T) {
	for _, c := range []struct {
		policy string
		alone  time.Duration
		exit   int
	}{{"fail", time.Second, 0}, {"fail", 5 * time.Second, 3}, {"degrade", 5 * time.Second, 0}} {
		t.Run(fmt.Sprint(c.policy, c.alone), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 30*time.Second)
			r := s.begin(c.policy, 8)
			for _, h := range s.hosts {
				s.lab.Partition(h, s.center)
			}
			<-time.After(c.alone)
			for _, h := range s.hosts {
				s.lab.Heal(h, s.center)
			}
			r.MustExit(c.exit)
			once(t, r.rows())
			if c.exit == 0 {
				r.mustBeComplete()
				return
			}
			result := r.results()
			t.Logf("%s: %s; missing %q", *result.Run.Outcome, *result.Run.Reason, result.Run.Missing)
			mustSay(t, []string{*result.Run.Reason}, "lost: ", "no heartbeat for 3.")
			if *result.Run.Outcome != "failed" {
				t.Errorf("outcome %s", *result.Run.Outcome)
			}
		})
	}
}
