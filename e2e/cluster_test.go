package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// cluster is a coordinator and its agents, a process each.
type cluster struct {
	t           *testing.T
	coordinator *process
	address     string // of the coordinator's services
	gossip      string // that agents join
	agents      map[string]*process
}

// startCluster starts a coordinator on free ports.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, agents: map[string]*process{}}
	c.coordinator = start(t, programs.coordinator, "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0", "--log-format", "json")
	c.gossip = c.coordinator.await(`"gossip is ready","address":"([^"]+)"`)[1]
	c.address = c.coordinator.await(`"coordinator serves","address":"([^"]+)"`)[1]
	return c
}

// join starts an agent that finds the coordinator by gossip.
func (c *cluster) join(name string, weight int) { c.agent(name, weight, "--join", c.gossip) }

// connect starts an agent that is given the coordinator's address and takes no part in gossip.
func (c *cluster) connect(name string, weight int) { c.agent(name, weight, "--coordinator", c.address) }

func (c *cluster) agent(name string, weight int, how ...string) {
	c.t.Helper()
	args := append([]string{"--name", name, "--weight", fmt.Sprint(weight), "--region", "here", "--log-format", "json"}, how...)
	c.agents[name] = start(c.t, programs.agent, args...)
}

// awaitReady waits until `spate agents` lists all agents as ready, and returns its lines.
func (c *cluster) awaitReady() string {
	c.t.Helper()
	var table string
	eventually(c.t, fmt.Sprintf("%d agents are ready", len(c.agents)), func() bool {
		said, err := exec.Command(programs.spate, "agents", "--coordinator", c.address).CombinedOutput()
		table = string(said)
		return err == nil && strings.Count(table, "ready") == len(c.agents)
	})
	return table
}
