package failures

import (
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
			relay, address := c.StartRelay("eu-relay", "127.0.0.1:0")
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
