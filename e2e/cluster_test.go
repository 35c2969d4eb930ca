package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/process"
)

// cluster is a coordinator and its agents, one process each.
type cluster struct {
	t           *testing.T
	coordinator *process.Process
	address     string // of the coordinator's services
	gossip      string // that agents join
	agents      map[string]*process.Process
	certs       func(role, name string) []string // flags of a program of a role; nil: the cluster has no certificates
	flags       []string                         // flags of the coordinator beside its address
}

// startCluster starts a coordinator on free ports.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, agents: map[string]*process.Process{}}
	c.coordinator = process.Start(t, programs.Coordinator, "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0",
		"--log-format", "json")
	c.gossip = c.coordinator.Await(`"gossip is ready","address":"([^"]+)"`)[1]
	c.address = c.coordinator.Await(`"coordinator serves","address":"([^"]+)"`)[1]
	return c
}

// startLasting starts a coordinator that can be restarted: without gossip, and with its data in a directory that stays.
// certs may be nil.
func startLasting(t *testing.T, certs func(role, name string) []string, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, agents: map[string]*process.Process{}, certs: certs, address: "127.0.0.1:0"}
	c.flags = append(append(c.own("coordinator", "main"), "--no-gossip", "--log-format", "json", "--data-dir",
		t.TempDir()), flags...)
	c.startCoordinator()
	c.address = c.coordinator.Await(`"coordinator serves","address":"([^"]+)"`)[1]
	return c
}

func (c *cluster) startCoordinator() {
	c.t.Helper()
	c.coordinator = process.Start(c.t, programs.Coordinator, append([]string{"--listen", c.address}, c.flags...)...)
}

// own returns the flags for a program's certificate, if the cluster has certificates.
func (c *cluster) own(role, name string) []string {
	if c.certs == nil {
		return nil
	}
	return c.certs(role, name)
}

// client returns the flags with which commands find the coordinator.
func (c *cluster) client() []string {
	return append([]string{"--coordinator", c.address}, c.own("client", "anna")...)
}

// spate runs a command against the coordinator in its own directory.
func (c *cluster) spate(args ...string) *process.Process {
	c.t.Helper()
	return process.Start(c.t, programs.Spate, append(args, c.client()...)...)
}

// says runs a command against the coordinator to its end, which must have the given exit code, and returns its output.
func (c *cluster) says(code int, args ...string) string {
	c.t.Helper()
	p := c.spate(args...)
	if got := p.Exit(); got != code {
		c.t.Fatalf("spate %s exits with %d, want %d", strings.Join(args, " "), got, code)
	}
	return p.Stdout.String() + p.Stderr.String()
}

// join starts an agent that finds the coordinator by gossip.
func (c *cluster) join(name string, weight int) { c.agent(name, weight, "--join", c.gossip) }

// connect starts an agent with the coordinator's address, outside gossip.
func (c *cluster) connect(name string, weight int) { c.agent(name, weight, "--coordinator", c.address) }

// named starts agents with the coordinator's address, and waits until they are ready.
func (c *cluster) named(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.agent(name, 1, append(c.own("agent", name), "--coordinator", c.address)...)
	}
	c.awaitReady()
}

func (c *cluster) agent(name string, weight int, how ...string) {
	c.t.Helper()
	args := append([]string{"--name", name, "--weight", fmt.Sprint(weight), "--region", "here", "--log-format", "json"},
		how...)
	c.agents[name] = process.Start(c.t, programs.Agent, args...)
}

// awaitReady waits until `spate agents` lists all agents as ready, and returns its lines.
func (c *cluster) awaitReady() string {
	c.t.Helper()
	var table string
	client := c.client()
	process.Eventually(c.t, fmt.Sprintf("%d agents are ready", len(c.agents)), func() bool {
		said, err := exec.Command(programs.Spate, append([]string{"agents"}, client...)...).CombinedOutput()
		table = string(said)
		return err == nil && strings.Count(table, "ready") == len(c.agents)
	})
	return table
}
