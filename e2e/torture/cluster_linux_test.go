package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/e2e/torture/judge"
	"github.com/spate-load/spate/e2e/torture/script"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
)

// cluster is what a script needs: a coordinator, agents with one link each, and a target behind a link.
type cluster struct {
	t       *testing.T
	script  script.Script
	dir     string // everything that is left behind
	data    string // the coordinator's data
	mounted bool

	server *simulator.Server
	target *Link
	links  []*Link // of agents
	conn   *grpc.ClientConn
	runs   spatev1.RunServiceClient

	mu          sync.Mutex
	coordinator *launched
	kills       int // of the coordinator, by faults
	address     string
	agents      []*launched
	full        bool // the disk was filled
	struck      []judge.Strike
	wrong       []string
}

// newCluster starts everything and waits until all agents are ready.
func newCluster(t *testing.T, s script.Script, dir string) *cluster {
	t.Helper()
	c := &cluster{t: t, script: s, dir: dir, data: filepath.Join(dir, "data"), agents: make([]*launched, len(s.Agents))}
	c.prepareDisk()
	c.serve()
	c.startCoordinator(anyPort)
	c.address = c.coordinator.await(`"coordinator serves","address":"([^"]+)"`)[1]
	for i := range s.Agents {
		c.links = append(c.links, c.link(c.address))
		c.startAgent(i)
	}
	c.dial()
	process.Eventually(t, "all agents are ready", func() bool { return c.ready() == len(s.Agents) })
	return c
}

// anyPort is where the coordinator listens first; later processes get the same port. Outgoing connections have
// another address, so that none has taken the port meanwhile.
const anyPort = "127.0.0.2:0"

// diskBytes is the size of the coordinator's disk, if it has its own.
const diskBytes = 64 << 20

// prepareDisk makes the coordinator's directory, on a small disk of its own if that disk will become full.
func (c *cluster) prepareDisk() {
	if err := os.MkdirAll(c.data, 0o755); err != nil {
		c.t.Fatal(err)
	}
	for _, f := range c.script.Faults {
		if f.Kind != script.FullDisk {
			continue
		}
		if err := unix.Mount("tmpfs", c.data, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
			c.t.Logf("the coordinator's disk does not become full, as no small one can be mounted: %v", err)
			return
		}
		c.mounted = true
		c.t.Cleanup(func() {
			if err := unix.Unmount(c.data, unix.MNT_DETACH); err != nil {
				c.t.Error(err)
			}
		})
	}
}

// serve starts the simulator, behind a link.
func (c *cluster) serve() {
	log, err := os.Create(filepath.Join(c.dir, judge.LogFile))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = log.Close() })
	config := config.Default()
	config.Truth.Log = log
	config.Model.DecodeStep, config.Model.DecodeStepPerRequest = c.script.Step, 0
	server, err := simulator.Start(config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = server
	c.target = c.link(server.URLs()[0][len("http://"):])
	c.t.Cleanup(func() { c.stopServing() })
}

// stopServing stops the simulator, so that its log is complete.
func (c *cluster) stopServing() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.server.Close(ctx) // requests of agents that were killed are cut off
}

// link makes a link that lasts as long as the test.
func (c *cluster) link(to string) *Link {
	k, err := Listen(to)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = k.Close() })
	return k
}

// startCoordinator starts a coordinator in the same directory as earlier ones.
func (c *cluster) startCoordinator(listen string) {
	c.coordinator = launch(c.t, c.dir, "coordinator", 0, programs.Built.Coordinator, "--listen", listen, "--no-gossip",
		"--data-dir", c.data,
		"--dataset-dir", filepath.Join(c.dir, "datasets"), "--lease", c.script.Lease.String(), "--log-format", "json",
		"--log-level", "debug")
}

// startAgent starts a process for the agent at a place.
func (c *cluster) startAgent(i int) {
	a := c.script.Agents[i]
	c.agents[i] = launch(c.t, c.dir, a.Name, a.Skew, programs.Built.Agent, "--name", a.Name, "--region", a.Region, "--weight",
		fmt.Sprint(a.Weight),
		"--coordinator", c.links[i].Address(), "--dataset-dir", filepath.Join(c.dir, "datasets-"+a.Name),
		"--log-format", "json", "--log-level", "debug")
}

// dial connects this test to the coordinator until the test ends.
func (c *cluster) dial() {
	conn, err := grpc.NewClient("passthrough:///"+c.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, MaxDelay: 300 * time.Millisecond,
				Multiplier: 1.5}}))
	if err != nil {
		c.t.Fatal(err)
	}
	c.conn, c.runs = conn, spatev1.NewRunServiceClient(conn)
	c.t.Cleanup(func() { _ = conn.Close() })
}

// ready returns how many agents wait for work.
func (c *cluster) ready() int {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	list, err := c.runs.ListAgents(ctx, &spatev1.ListAgentsRequest{})
	if err != nil {
		return 0
	}
	n := 0
	for _, a := range list.GetAgents() {
		if a.GetHealth() == spatev1.AgentHealth_AGENT_HEALTH_READY {
			n++
		}
	}
	return n
}

// play runs a fault and records it. It returns when the fault is over or ctx has ended, which ends the fault.
func (c *cluster) play(ctx context.Context, f script.Fault) {
	from := now()
	end := c.begin(f)
	begun := now()
	if f.Kind == script.FullDisk && !c.mounted {
		return
	}
	if end != nil {
		pause(ctx, f.For)
		end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.struck = append(c.struck, judge.Strike{Kind: f.Kind, Agent: f.Agent, Delay: f.Delay + f.Jitter,
		Begun: begun, Span: judge.Span{From: from, To: now()}})
}

// begin starts a fault, and returns a function that ends it.
func (c *cluster) begin(f script.Fault) (end func()) {
	switch f.Kind {
	case script.KillAgent:
		return c.killAgent(f)
	case script.KillCoordinator:
		return c.killCoordinator()
	case script.StopAgent:
		c.mu.Lock()
		p := c.agents[f.Agent]
		c.mu.Unlock()
		p.signal(syscall.SIGSTOP)
		return func() { p.signal(syscall.SIGCONT) }
	case script.Partition:
		return c.links[f.Agent].Hold()
	case script.Reset:
		c.links[f.Agent].Reset()
	case script.SlowLink:
		return c.links[f.Agent].Limit(f.Bytes)
	case script.DelayLink:
		return c.links[f.Agent].Delay(f.Delay, f.Jitter)
	case script.SlowTarget:
		return c.target.Delay(f.Delay, f.Jitter)
	case script.FullDisk:
		c.fill()
	}
	return nil
}

// killAgent kills an agent's process. If the fault has a duration, a new process with the agent's name follows.
func (c *cluster) killAgent(f script.Fault) (restart func()) {
	c.mu.Lock()
	p := c.agents[f.Agent]
	c.mu.Unlock()
	p.kill()
	if f.For == 0 {
		return nil
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.agents[f.Agent] == p {
			c.startAgent(f.Agent)
		}
	}
}

// killCoordinator kills the coordinator. If two kills overlap, the later restart counts.
func (c *cluster) killCoordinator() (restart func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coordinator.kill()
	c.kills++
	n := c.kills
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.kills == n { // otherwise another fault has killed it since
			c.startCoordinator(c.address)
		}
	}
}

// filler is the file that fills the disk.
const filler = "filler"

// fill fills the coordinator's disk. That may take seconds, in which other faults begin.
func (c *cluster) fill() {
	if !c.mounted {
		return
	}
	c.mu.Lock()
	c.full = true
	c.mu.Unlock()
	file, err := os.Create(filepath.Join(c.data, filler))
	if err != nil {
		c.wrongf("%v", err)
		return
	}
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := file.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			c.wrongf("%v", err)
			break
		}
	}
	_ = file.Close() // its contents do not matter
}
