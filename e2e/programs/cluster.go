package programs

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/internal/process"
)

// Cluster is a coordinator and its agents, one process each.
type Cluster struct {
	Coordinator *process.Process
	Address     string                      // of the coordinator's services
	Agents      map[string]*process.Process // by name

	t      *testing.T
	gossip string                           // address that agents join
	certs  func(role, name string) []string // flags of a program of a role; nil: the cluster has no certificates
	flags  []string                         // flags of the coordinator beside its address
}

// StartCluster starts a coordinator on free ports.
func StartCluster(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Agents: map[string]*process.Process{}}
	c.Coordinator = process.Start(t, Built.Coordinator, "--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0",
		"--log-format", "json")
	c.gossip = c.Coordinator.Await(`"gossip is ready","address":"([^"]+)"`)[1]
	c.Address = c.Coordinator.Await(`"coordinator serves","address":"([^"]+)"`)[1]
	return c
}

// StartLasting starts a coordinator that can be restarted: without gossip, and with its data in a directory that stays.
// certs may be nil.
func StartLasting(t *testing.T, certs func(role, name string) []string, flags ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, Agents: map[string]*process.Process{}, certs: certs, Address: process.FreeAddress(t)}
	c.flags = append(append(c.own("coordinator", "main"), "--no-gossip", "--log-format", "json", "--data-dir",
		t.TempDir()), flags...)
	c.StartCoordinator()
	c.Coordinator.Await(`"coordinator serves"`)
	return c
}

// StartCoordinator starts the coordinator again, at its address. It does not wait until it serves.
func (c *Cluster) StartCoordinator() {
	c.t.Helper()
	c.Coordinator = process.Start(c.t, Built.Coordinator, append([]string{"--listen", c.Address}, c.flags...)...)
}

// own returns the flags for a program's certificate, if the cluster has certificates.
func (c *Cluster) own(role, name string) []string {
	if c.certs == nil {
		return nil
	}
	return c.certs(role, name)
}

// Client returns the flags with which commands find the coordinator.
func (c *Cluster) Client() []string {
	return append([]string{"--coordinator", c.Address}, c.own("client", "anna")...)
}

// Spate runs a command against the coordinator in its own directory.
func (c *Cluster) Spate(args ...string) *process.Process {
	c.t.Helper()
	return process.Start(c.t, Built.Spate, append(args, c.Client()...)...)
}

// Says runs a command against the coordinator to its end, which must have the given exit code, and returns its output.
func (c *Cluster) Says(code int, args ...string) string {
	c.t.Helper()
	p := c.Spate(args...)
	if got := p.Exit(); got != code {
		c.t.Fatalf("spate %s exits with %d, want %d", strings.Join(args, " "), got, code)
	}
	return p.Stdout.String() + p.Stderr.String()
}

// Join starts an agent that finds the coordinator by gossip.
func (c *Cluster) Join(name string, weight int) { c.Agent(name, weight, "--join", c.gossip) }

// Connect starts an agent with the coordinator's address, outside gossip.
func (c *Cluster) Connect(name string, weight int) { c.Agent(name, weight, "--coordinator", c.Address) }

// StartAgents starts agents with the coordinator's address, and waits until they are ready.
func (c *Cluster) StartAgents(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.Agent(name, 1, append(c.own("agent", name), "--coordinator", c.Address)...)
	}
	c.AwaitReady()
}

// Agent starts an agent. how are the flags with which it finds the coordinator, and others.
func (c *Cluster) Agent(name string, weight int, how ...string) {
	c.t.Helper()
	args := append([]string{"--name", name, "--weight", fmt.Sprint(weight), "--region", "here", "--log-format", "json"},
		how...)
	c.Agents[name] = process.Start(c.t, Built.Agent, args...)
}

// AwaitReady waits until `spate agents` lists all agents as ready, and returns its lines.
func (c *Cluster) AwaitReady() string {
	c.t.Helper()
	var table string
	list := append([]string{"agents"}, c.Client()...)
	process.Eventually(c.t, fmt.Sprintf("%d agents are ready", len(c.Agents)), func() bool {
		said, err := exec.CommandContext(c.t.Context(), Built.Spate, list...).CombinedOutput()
		table = string(said)
		return err == nil && strings.Count(table, "ready") == len(c.Agents)
	})
	return table
}

// KillCoordinator kills the coordinator as a power cut does.
func (c *Cluster) KillCoordinator() { c.EndCoordinator(syscall.SIGKILL) }

// EndCoordinator ends the coordinator by a signal.
func (c *Cluster) EndCoordinator(by syscall.Signal) {
	c.t.Helper()
	c.Coordinator.Signal(by)
	<-c.Coordinator.Ended()
}

// Follow starts a client that follows a run and has its results in the end.
func (c *Cluster) Follow(run string) Running {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), "followed")
	return Running{c.Spate("runs", "follow", run, "--out", dir), dir, c.t}
}

// Detach submits a run and does not follow it.
func (c *Cluster) Detach(plan string) string {
	c.t.Helper()
	return c.Says(0, "run", PlanIn(c.t, plan, nil), "--detach")
}

// RatePlan returns a plan that sends 20 requests per second, each at its own time, for that many seconds.
func RatePlan(name, onAgentLoss, url string, seconds int) string {
	return fmt.Sprintf(`
name: %s
on_agent_loss: %s
targets: [{name: server, endpoints: [%q], model: m}]
workloads: [{random: {isl: 10, osl: 2}}]
loads: [{rate: [20], arrival: constant, duration: %ds}]
`, name, onAgentLoss, url, seconds)
}

// RateRun runs a plan of 20 requests per second for that many seconds.
func (c *Cluster) RateRun(policy string, seconds, agents int) (Running, Simulation) {
	c.t.Helper()
	server := Simulate(c.t, 1, "--decode-step", "2ms")
	return RunPlan(c.t, RatePlan(policy, policy, server.URLs[0], seconds),
		append(c.Client(), "--min-agents", fmt.Sprint(agents))...), server
}

// RunDir returns the directory of the coordinator's only run.
func (c *Cluster) RunDir() string {
	c.t.Helper()
	for i, flag := range c.flags {
		if flag != "--data-dir" {
			continue
		}
		found, err := filepath.Glob(filepath.Join(c.flags[i+1], "*", "ledger.db"))
		if err != nil || len(found) != 1 {
			c.t.Fatalf("run directories %q: %v", found, err)
		}
		return filepath.Dir(found[0])
	}
	c.t.Fatal("the coordinator has no directory of its own")
	return ""
}

// MakeCerts makes an authority. It returns a function that makes a certificate of a role once and returns its flags.
func MakeCerts(t *testing.T) func(role, name string) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "certs")
	spate := func(args ...string) string {
		args = append([]string{"certs", "--dir", dir}, args...)
		said, err := exec.CommandContext(t.Context(), Built.Spate, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("spate certs: %v\n%s", err, said)
		}
		return string(said)
	}
	spate("init")
	made := map[string][]string{}
	return func(role, name string) []string {
		name = role + "-" + name
		if made[name] == nil {
			made[name] = strings.Fields(spate(role, name))
		}
		return made[name]
	}
}
