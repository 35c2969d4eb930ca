package membership

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spate-load/spate/clock"
)

// crowdSize is the number of members of the crowd in virtual time. 1,000 take minutes, 2,000 more than 10 GiB.
var crowdSize = flag.Int("crowd", usualCrowd, "members of the crowd in virtual time")

const (
	crowdSeen = 5 * time.Second // goal: all have seen a newcomer
	// all have seen a death; gossip may be slow, since it does not decide liveness during a run
	crowdDead = 60 * time.Second
)

// TestACrowdFindsEachOther: 100 members find each other from one seed, stay stable, see a newcomer and a death in time,
// cost little, and are gone after Close. It runs in virtual time over an in-memory network, because on real sockets the
// pauses of a busy machine look like deaths. TestALoopbackCrowd uses real sockets.
func TestACrowdFindsEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sky := newAir()
		before := usage()
		begin := time.Now()
		crowd := make([]*Cluster, *crowdSize)
		for i := range crowd {
			crowd[i] = airborne(t, sky, i)
		}
		t.Logf("%d members, all started at once, see each other after %v", *crowdSize,
			seenByAll(t, crowd, *crowdSize, begin, crowdDead))
		checkCost(t, sky, before, crowd)

		begin = time.Now()
		newcomer := airborne(t, sky, *crowdSize)
		t.Logf("a newcomer is seen by all after %v", seenByAll(t, append([]*Cluster{newcomer}, crowd...), *crowdSize+1,
			begin, crowdSeen))

		begin = time.Now()
		die(t, newcomer)
		t.Logf("a death is known to all after %v", seenByAll(t, crowd, *crowdSize, begin, crowdDead))

		if n := sky.largestSeen(); n > datagramBytes {
			t.Errorf("a datagram of %d bytes, want %d at most", n, datagramBytes)
		}
		disperse(t, crowd)
		time.Sleep(10 * time.Second) // pings in flight, see TestMain; leaked goroutines fail the test
	})
}

// TestASplitClusterBecomesOneAgain: members that took each other for dead rejoin through their seeds soon after the
// split ends.
func TestASplitClusterBecomesOneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sky := newAir()
		var crowd []*Cluster
		for i := range 3 {
			crowd = append(crowd, airborne(t, sky, i))
		}
		begin := time.Now()
		seenByAll(t, crowd, 3, begin, crowdSeen)
		sky.set(true)
		begin = time.Now()
		t.Logf("alone after %v", seenByAll(t, crowd, 1, begin, 2*crowdDead))
		time.Sleep(10 * time.Minute)
		sky.set(false)
		begin = time.Now()
		t.Logf("one again after %v", seenByAll(t, crowd, 3, begin, crowdSeen))
		disperse(t, crowd)
		time.Sleep(10 * time.Second)
	})
}

// airborne joins the i-th member over the air. The first member is the seed of all.
func airborne(t *testing.T, sky *air, i int) *Cluster {
	t.Helper()
	cfg := config(fmt.Sprintf("m%d", i), RoleAgent, 0)
	cfg.Bind = fmt.Sprintf("10.0.%d.%d:7946", i/250, 1+i%250)
	cfg.Rejoin, cfg.network, cfg.resolve, cfg.Keys = 0, sky.open, names(nil), keysOf(oldKey)
	if i > 0 {
		cfg.Seeds = []string{"10.0.0.1"}
	}
	c, err := Join(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// seenByAll blocks until each of crowd sees n members, and returns the time since begin.
func seenByAll(t *testing.T, crowd []*Cluster, n int, begin time.Time, limit time.Duration) time.Duration {
	t.Helper()
	late := time.NewTimer(time.Until(begin.Add(limit)))
	defer late.Stop()
	for _, c := range crowd {
		for changed := c.Changed(); c.roster.size() != n; changed = c.Changed() {
			select {
			case <-changed:
			case <-late.C:
				t.Fatalf("%s sees %d members after %v, want %d", c.list.LocalNode().Name, c.roster.size(), limit, n)
			}
		}
	}
	return time.Since(begin).Round(time.Millisecond)
}

// stillFor fails the test if any member sees a change within quiet.
func stillFor(t *testing.T, crowd []*Cluster, quiet time.Duration) {
	t.Helper()
	time.Sleep(time.Second) // lets pending changes arrive
	var watched []<-chan struct{}
	for _, c := range crowd {
		watched = append(watched, c.Changed())
	}
	time.Sleep(quiet)
	for i, changed := range watched {
		select {
		case <-changed:
			t.Errorf("%s saw a change while nothing happened", crowd[i].list.LocalNode().Name)
		default:
		}
	}
}

// checkCost checks the cost per member while nothing happens.
func checkCost(t *testing.T, sky *air, before cost, crowd []*Cluster) {
	t.Helper()
	const quiet = 10 * time.Second
	members, begin, sent := len(crowd), clock.CPU(), sky.traffic()
	stillFor(t, crowd, quiet)
	seconds := quiet.Seconds() + 1
	sent = sky.traffic().minus(sent)
	t.Logf("a member uses %.0f us of CPU per second, and sends %.1f datagrams of %d bytes per second and %.2f connections",
		(clock.CPU()-begin).Seconds()*1e6/float64(members)/seconds, float64(sent.datagrams)/float64(members)/seconds,
		sent.bytes/max(sent.datagrams, 1), float64(sent.connections)/float64(members)/seconds)
	after := usage()
	t.Logf("%s with %d members; before: %s", after, members, before)
	if per := (after.goroutines - before.goroutines) / members; per > 20 {
		t.Errorf("%d goroutines a member", per)
	}
	// each member knows all others
	if per := (after.heap - before.heap) / members; per > 1<<20+members<<12 {
		t.Errorf("%d KiB of heap a member", per>>10)
	}
}

// disperse closes all members at once.
func disperse(t *testing.T, crowd []*Cluster) {
	t.Helper()
	var all sync.WaitGroup
	for _, c := range crowd {
		all.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// die ends a member without a leave message.
func die(t *testing.T, c *Cluster) {
	t.Helper()
	c.once.Do(func() {
		c.halt()
		c.stopped.Wait()
		if err := c.list.Shutdown(); err != nil {
			t.Fatal(err)
		}
	})
}

// cost is what a process uses.
type cost struct{ goroutines, heap int }

func (c cost) String() string {
	return fmt.Sprintf("%d goroutines, heap %d MiB", c.goroutines, c.heap>>20)
}

func usage() cost {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{runtime.NumGoroutine(), int(m.HeapAlloc)}
}

// TestALoopbackCrowd: fewer members join one seed at once over real sockets. The time is not checked, since it depends
// on the machine.
func TestALoopbackCrowd(t *testing.T) {
	t.Parallel()
	const size = 16
	begin := time.Now()
	crowd := []*Cluster{join(t, config("m0", RoleCoordinator, 7070))}
	for i := 1; i < size; i++ {
		crowd = append(crowd, join(t, config(fmt.Sprintf("m%d", i), RoleAgent, 0, crowd[0].Address())))
	}
	t.Logf("%d members see each other after %v", size, seenByAll(t, crowd, size, begin, crowdDead))
	disperse(t, crowd)
}
