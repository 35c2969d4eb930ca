package membership

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// changing returns a cluster, and a function that changes its members.
func changing() (c *Cluster, change func()) {
	c = &Cluster{roster: newRoster(quiet)}
	return c, func() { c.roster.change(func() {}) }
}

func TestSettleWaitsForQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, change := changing()
		begin, done := time.Now(), make(chan error)
		go func() { done <- c.Stable(t.Context(), 2*time.Second) }()
		for range 5 {
			time.Sleep(1500 * time.Millisecond)
			change()
			synctest.Wait()
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(begin), 9500*time.Millisecond; took != want {
			t.Errorf("settled after %v, want %v: 2 s after the last change", took, want)
		}
	})
}

func TestSettleIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, change := changing()
		go func() {
			for range 5 {
				time.Sleep(time.Second)
				change()
			}
		}()
		begin := time.Now()
		err := c.Stable(ctx, 2*time.Second)
		if err == nil || !strings.Contains(err.Error(), "keep changing") || time.Since(begin) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

func TestStableEndsWithClose(t *testing.T) {
	c := join(t, config("a", RoleAgent, 0))
	done := make(chan error, 1)
	go func() { done <- c.Stable(t.Context(), time.Hour) }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error %v", err)
	}
}
