package membership

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/process"
)

// TestMain also checks that no goroutine is left. memberlist does not wait for a ping in flight, which takes at most
// eight seconds.
func TestMain(m *testing.M) {
	process.Parallel(8)
	code := m.Run()
	deadline := time.Now().Add(30 * time.Second)
	for err := goleak.Find(); err != nil && code == 0; err = goleak.Find() {
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// quiet discards logs, so that the tests' output is readable.
var quiet = slog.New(slog.DiscardHandler)

func config(name string, role Role, port uint16, seeds ...string) Config {
	return Config{
		Name: name, Meta: Meta{Role: role, GRPCPort: port, Region: "eu"}, Bind: "127.0.0.1:0",
		Label: "test", Seeds: seeds, Rejoin: 200 * time.Millisecond, Logger: quiet,
	}
}

func join(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Join(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// await blocks until c sees n members.
func await(t *testing.T, c *Cluster, n int) []Member {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		changed := c.Changed()
		if m := c.Members(); len(m) == n {
			return m
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s sees %v, want %d members", c.list.LocalNode().Name, c.Members(), n)
		}
	}
}

func TestThreeNodesFindEachOtherAndSeeALeave(t *testing.T) {
	t.Parallel()
	coordinator := join(t, config("c", RoleCoordinator, 7070))
	a := join(t, config("a", RoleAgent, 0, coordinator.Address()))
	b := join(t, config("b", RoleAgent, 0, a.Address())) // any member is a seed
	for _, c := range []*Cluster{coordinator, a, b} {
		await(t, c, 3)
	}
	addrs, err := b.Coordinators(t.Context())
	if err != nil || len(addrs) != 1 || addrs[0] != "127.0.0.1:7070" {
		t.Fatalf("coordinators of b: %v, %v", addrs, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for _, m := range await(t, coordinator, 2) {
		if strings.HasPrefix(m.Name, "a-") {
			t.Errorf("%s has left and is still listed", m.Name)
		}
	}
}

func TestASeedThatComesUpLaterIsJoined(t *testing.T) {
	t.Parallel()
	seed := process.FreeAddress(t)
	a := join(t, config("a", RoleAgent, 0, seed))
	late := config("c", RoleCoordinator, 7070)
	late.Bind = seed
	join(t, late)
	await(t, a, 2)
}

func TestAnotherLabelIsRefused(t *testing.T) {
	a := join(t, config("a", RoleAgent, 0))
	other := config("b", RoleAgent, 0, a.Address())
	other.Label = "another"
	b := join(t, other)
	if err := b.joinSeeds(t.Context()); err == nil {
		t.Error("joined a cluster with another label")
	}
	if n := len(a.Members()); n != 1 {
		t.Errorf("%d members, want 1", n)
	}
}

func TestGarbageMetaIsIgnored(t *testing.T) {
	t.Parallel()
	a := join(t, config("a", RoleAgent, 0))
	mc := memberlist.DefaultLocalConfig()
	mc.Name, mc.Label = "stranger", "test"
	mc.BindAddr, mc.BindPort = "127.0.0.1", 0
	mc.Logger = debugLogger(quiet)
	mc.Delegate = metaDelegate(strings.Repeat("\xff", 300))
	stranger, err := memberlist.Create(mc)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Shutdown()
	if _, err := stranger.Join([]string{a.Address()}); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	for changed := a.Changed(); a.roster.size() != 2; changed = a.Changed() {
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("memberlist sees %d nodes, want 2", a.roster.size())
		}
	}
	if m := a.Members(); len(m) != 1 {
		t.Errorf("members %v: the stranger is listed", m)
	}
}

func TestNoCoordinatorIsSaidWhenTheWaitEnds(t *testing.T) {
	a := join(t, config("a", RoleAgent, 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Coordinators(ctx); err == nil || !strings.Contains(err.Error(), "no coordinator found") {
		t.Errorf("error %v", err)
	}
}

// TestASeedThatMovesIsFoundAgain: the seed's name is looked up again at each attempt.
func TestASeedThatMovesIsFoundAgain(t *testing.T) {
	t.Parallel()
	old, moved := join(t, config("c", RoleCoordinator, 7070)), config("d", RoleCoordinator, 7071)
	where := make(chan string, 1)
	where <- "127.0.0.1"
	_, port, err := net.SplitHostPort(old.Address())
	if err != nil {
		t.Fatal(err)
	}
	cfg := config("a", RoleAgent, 0, "seed:"+port)
	cfg.resolve = func(context.Context, string) ([]string, error) {
		ip := <-where
		where <- ip
		return []string{ip}, nil
	}
	a := join(t, cfg)
	await(t, a, 2)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, a, 1)
	moved.Bind = "127.0.0.2:" + port
	d := join(t, moved)
	<-where
	where <- "127.0.0.2"
	for _, m := range await(t, a, 2) {
		if m.Role == RoleCoordinator && m.Gossip != d.Address() {
			t.Errorf("found %+v, want the coordinator at %s", m, d.Address())
		}
	}
}

// TestOneAddressOfASeedIsEnough: other addresses of the name may be unreachable.
func TestOneAddressOfASeedIsEnough(t *testing.T) {
	t.Parallel()
	c := join(t, config("c", RoleCoordinator, 7070))
	_, port, err := net.SplitHostPort(c.Address())
	if err != nil {
		t.Fatal(err)
	}
	cfg := config("a", RoleAgent, 0)
	cfg.resolve = names(map[string][]string{"seed": {"127.0.0.1", "127.0.0.9"}, "far": {"10.0.0.1"}})
	a := join(t, cfg)
	for _, known := range []map[string]bool{{}, {c.Address(): true}} {
		if err := a.joinSeed(t.Context(), "seed:"+port, known); err != nil {
			t.Error(err)
		}
	}
	for seed, want := range map[string]string{
		"gone":              `seed "gone": no such host`,
		"far":               "tell 10.0.0.1 to reach it at 127.0.0.1",
		"127.0.0.8:" + port: "join 127.0.0.8:" + port + " (",
	} {
		if err := a.joinSeed(t.Context(), seed, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", seed, err, want)
		}
	}
}

// TestWANPaceJoins: with the WAN preset members find each other and leave as usual.
func TestWANPaceJoins(t *testing.T) {
	t.Parallel()
	cfg := config("c", RoleCoordinator, 7070)
	cfg.WAN = true
	c := join(t, cfg)
	cfg = config("a", RoleAgent, 0, c.Address())
	cfg.WAN = true
	a := join(t, cfg)
	await(t, a, 2)
	await(t, c, 2)
}
