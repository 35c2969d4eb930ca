package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/compare/history"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestListenRules(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1:7070": true, "[::1]:7070": true, "0.0.0.0:7070": false,
		"10.1.2.3:7070": false} {
		at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
		if err := (Config{}).checkAddr(at); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "spate certs --help") {
			t.Errorf("%s: %v", address, err)
		}
		for _, cfg := range []Config{{TLS: certs.Files{Cert: "c.crt"}}, {InsecurePlaintext: true}} {
			if err := cfg.checkAddr(at); err != nil {
				t.Errorf("%s is allowed: %v", address, err)
			}
		}
	}
	err := Config{Listen: "7070"}.Validate()
	if err == nil || !strings.Contains(err.Error(), "want HOST:PORT") || !strings.Contains(err.Error(), "data directory") {
		t.Errorf("error %v", err)
	}
}

func TestRunServesAndGossipsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	log := new(lockedBuffer).logger()
	a, err := membership.Join(membership.Config{
		Name: "a", Bind: "127.0.0.1:0", Label: "run", Logger: log,
		Meta: membership.Meta{Role: membership.RoleAgent, Region: "eu"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c, err := New(Config{
		Listen: "127.0.0.1:0", DataDir: t.TempDir(), Logger: log,
		Gossip: &membership.Config{Name: "c", Bind: "127.0.0.1:0", Label: "run", Seeds: []string{a.Address()},
			Logger: log},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	if _, err := a.Coordinators(ctx); err != nil {
		t.Fatal(err)
	}
	checkFound(t, ctx, c)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// checkFound waits until the coordinator lists the agent that only gossip has found.
func checkFound(t *testing.T, ctx context.Context, c *Coordinator) {
	t.Helper()
	c.mu.Lock()
	cluster := c.cluster
	c.mu.Unlock()
	for ctx.Err() == nil {
		changed := cluster.Changed()
		m, err := runService{c: c}.ListAgents(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.GetAgents()) == 1 {
			s := m.GetAgents()[0]
			if s.GetAgent().GetName() != "a" || s.GetAgent().GetRegion() != "eu" ||
				s.GetHealth() != spatev1.AgentHealth_AGENT_HEALTH_FOUND {
				t.Errorf("found %v", s)
			}
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	t.Error("the agent was not found")
}

func TestMain(m *testing.M) {
	process.Parallel(8)
	goleak.VerifyTestMain(m)
}

const keyless = clustertest.Keyless

// leisurely lets agents be silent, because agents in the tests send no heartbeats unless a test is about heartbeats.
var leisurely = lifecycle.Config{Silence: time.Hour}

// harness is a coordinator with a client, in one process.
type harness struct {
	*clustertest.Cluster
	c       *Coordinator
	dataDir string
	gate    *gate // nil in benchmarks
}

// openHistory is Config.OpenHistory of the tests.
func openHistory(dir string, log *slog.Logger) (History, error) { return history.Open(dir, log) }

func start(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	cfg := Config{
		DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Version: "test",
		Run: leisurely, OpenHistory: openHistory,
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, c, cfg.DataDir)
}

// serve lets a coordinator serve in this process until the test ends.
func serve(t testing.TB, c *Coordinator, dataDir string) *harness {
	t.Helper()
	var g *gate
	if _, ok := t.(*testing.T); ok {
		g = newGate(t, c)
	}
	h := &harness{Cluster: clustertest.Serve(t, c), c: c, dataDir: dataDir, gate: g}
	t.Cleanup(func() {
		if g != nil {
			g.restart() // a failed test may have left it stopped
		}
	})
	return h
}

func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	var logged lockedBuffer
	h := start(t, func(c *Config) { c.Logger = logged.logger() })
	a := h.Agent("a")
	id := h.Submit(1)
	clustertest.RunStage(a)
	clustertest.RunStage(a)
	events := fmt.Sprint(h.Follow(id))
	ledger, err := os.ReadFile(h.Download(id))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"ledger": string(ledger), "log": logged.text(), "events": events} {
		if strings.Contains(text, clustertest.SecretKey) {
			t.Errorf("the key is in the %s", what)
		}
	}
	if !strings.Contains(logged.text(), id) {
		t.Error("the log was not seen")
	}
}
