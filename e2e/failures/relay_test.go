package failures

import (
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// A run continues while the relay of its agents is killed and restarted: the agents keep what they measure, and send it
// again. Nothing is missing or counted twice. This holds with certificates and in plaintext.
func TestARunSurvivesItsRelay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		by    syscall.Signal
		certs bool
	}{"killed": {by: syscall.SIGKILL}, "terminated, with certificates": {syscall.SIGTERM, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own func(role, name string) []string
			if tc.certs {
				own = programs.MakeCerts(t)
			}
			c := programs.StartLasting(t, own)
			relay, address := c.StartRelay("eu-relay", process.FreeAddress(t))
			c.ConnectTo(address, "north", "south")
			if table := c.AwaitReady(); strings.Count(table, "eu-relay") != 2 {
				t.Errorf("spate agents does not show the relay of both agents:\n%s", table)
			}
			r, server := c.RateRun("fail", 15, 2)
			r.Await(`1 stage on 2 agents`)
			server.AwaitAnswers(60)
			relay.Signal(tc.by)
			<-relay.Ended()
			c.StartRelay("eu-relay", address)
			r.MustExit(0)
			result := r.Results()
			if !result.Run.Complete || result.Stages[0].Requests.Completed != 300 {
				t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
			}
			r.MustSend(0, 15)
		})
	}
}

// Agents whose relay is gone for good go on with the next address that they have.
func TestAgentsTakeAnotherRelay(t *testing.T) {
	t.Parallel()
	c := programs.StartLasting(t, nil)
	first, at := c.StartRelay("first", "127.0.0.1:0")
	_, next := c.StartRelay("second", "127.0.0.1:0")
	c.ConnectTo(at+","+next, "north", "south")
	r, server := c.RateRun("fail", 12, 2)
	server.AwaitAnswers(40)
	first.Signal(syscall.SIGKILL)
	r.MustExit(0)
	if result := r.Results(); !result.Run.Complete || result.Stages[0].Requests.Completed != 240 {
		t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
	}
	r.MustSend(0, 12)
	if table := c.AwaitReady(); strings.Count(table, "second") != 2 {
		t.Errorf("the agents are not at the second relay:\n%s", table)
	}
}

// A relay needs a certificate of its own role.
func TestOnlyRelaysRelay(t *testing.T) {
	t.Parallel()
	own := programs.MakeCerts(t)
	p := process.Start(t, programs.Built.Coordinator,
		append(own("agent", "north"), "--relay", "127.0.0.1:1", "--no-gossip", "--listen", "127.0.0.1:0")...)
	if code := p.Exit(); code != 2 || !strings.Contains(p.Stderr.String(),
		"is the certificate of agent agent-north") {
		t.Errorf("with the certificate of an agent it exits with %d", code)
	}
}

// What a relay adds up is what the rows of the requests say, and with --relay-merge=false each agent has its own
// latencies.
func TestARelayAddsUpExactly(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"added up": nil, "passed on": {"--relay-merge=false"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := programs.StartLasting(t, nil)
			_, address := c.StartRelay("eu-relay", "127.0.0.1:0", flags...)
			c.ConnectTo(address, "north", "south", "west")
			r, _ := c.RateRun("fail", 8, 3)
			r.MustExit(0)
			r.MustSend(0, 8)
			stage := r.Results().Stages[0]
			var ttfts []float64
			for _, row := range r.Rows()[0] {
				if row.FirstTokenNs == nil {
					t.Fatalf("request %d has no first token", row.Index)
				}
				ttfts = append(ttfts, float64(*row.FirstTokenNs-row.StartNs)/1e6)
			}
			slices.Sort(ttfts)
			d := stage.TTFT
			if !stage.Complete || d == nil || d.Count != uint64(len(ttfts)) {
				t.Fatalf("complete %v, TTFT %+v of %d rows", stage.Complete, d, len(ttfts))
			}
			for p, got := range map[float64]float64{0.5: d.P50, 0.9: d.P90, 0.99: d.P99} {
				want := ttfts[int(math.Ceil(p*float64(len(ttfts))))-1]
				if math.Abs(got-want) > 0.002*want { // three digits
					t.Errorf("p%g is %v, and %v by the rows", 100*p, got, want)
				}
			}
			for _, a := range stage.Agents {
				if known := a.TTFT != nil; known != (flags != nil) || a.Requests.Completed == 0 {
					t.Errorf("agent %s: %d requests, TTFT known: %v", a.Name, a.Requests.Completed, known)
				}
			}
		})
	}
}
