package membership

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

const (
	crowdSize     = 200
	crowdSeen     = 5 * time.Second  // the goal for a newcomer to be seen by all
	crowdDeadline = 60 * time.Second // what a machine that is busy with other tests is given before that counts as a failure
	crowdCalm     = 3 * time.Second  // how long nobody may come or go; three rounds of pings
)

// TestACrowdFindsEachOther: 200 members in one process find each other from one seed, hold still, see a newcomer and a death, cost
// little, and are gone after Close.
func TestACrowdFindsEachOther(t *testing.T) {
	before := usage()
	crowd := make([]*Cluster, crowdSize)
	defer disperse(t, crowd)
	begin := time.Now()
	for i := range crowd {
		cfg := config(fmt.Sprintf("m%d", i), RoleAgent, 0)
		cfg.Rejoin = 0 // the default, as 200 processes would have it
		if i > 0 {
			cfg.Seeds = []string{crowd[0].Address()}
		}
		c, err := Join(cfg) // does not wait for seeds
		if err != nil {
			t.Fatal(err)
		}
		crowd[i] = c
	}
	t.Logf("%d members after %v", crowdSize, since(begin))
	seenByAll(t, crowd, crowdSize)
	t.Logf("%d members see each other after %v", crowdSize, since(begin))
	steady(t, crowd)
	after := usage()
	t.Logf("%s; before: %s", after, before)
	if per := (after.goroutines - before.goroutines) / crowdSize; per > 20 {
		t.Errorf("%d goroutines a member", per)
	}
	if per := (after.heap - before.heap) / crowdSize; per > 1<<20 {
		t.Errorf("%d KiB of heap a member", per>>10)
	}

	begin = time.Now()
	newcomer, err := Join(config("newcomer", RoleAgent, 0, crowd[crowdSize/2].Address()))
	if err != nil {
		t.Fatal(err)
	}
	seenByAll(t, append(crowd, newcomer), crowdSize+1)
	t.Logf("a newcomer is seen by all after %v; the goal is %v", since(begin), crowdSeen)

	begin = time.Now()
	die(t, newcomer)
	seenByAll(t, crowd, crowdSize)
	t.Logf("a death is known to all after %v", since(begin))

	begin = time.Now()
	disperse(t, crowd)
	// memberlist does not wait for a ping under way, which may last eight rounds.
	for deadline := time.Now().Add(crowdDeadline); runtime.NumGoroutine() > before.goroutines; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines after Close, %d before", runtime.NumGoroutine(), before.goroutines)
		}
	}
	t.Logf("all are gone after %v", since(begin))
}

// disperse closes all at once. It may be called twice.
func disperse(t *testing.T, crowd []*Cluster) {
	var all sync.WaitGroup
	for _, c := range crowd {
		if c == nil {
			continue
		}
		all.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// die ends a member without a farewell.
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

// seenByAll blocks until each of crowd sees n members.
func seenByAll(t *testing.T, crowd []*Cluster, n int) {
	t.Helper()
	deadline := time.Now().Add(crowdDeadline)
	for _, c := range crowd {
		for changed := c.Changed(); c.list.NumMembers() != n; changed = c.Changed() {
			select {
			case <-changed:
			case <-time.After(time.Until(deadline)):
				t.Fatalf("%s sees %d members after %v, want %d", c.Name(), c.list.NumMembers(), crowdDeadline, n)
			}
		}
	}
}

// steady blocks until one of them has seen nobody come or go for a while; then all must still see all.
func steady(t *testing.T, crowd []*Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), crowdDeadline)
	defer cancel()
	if err := crowd[crowdSize/2].Stable(ctx, crowdCalm); err != nil {
		t.Fatal(err)
	}
	for _, c := range crowd {
		if n := len(c.Members()); n != crowdSize {
			t.Errorf("%s sees %d members, want %d", c.Name(), n, crowdSize)
		}
	}
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(time.Millisecond) }

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
