package membership

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bell is a source of changes.
type bell struct {
	mu   sync.Mutex
	next chan struct{}
}

func newBell() *bell { return &bell{next: make(chan struct{})} }

func (b *bell) changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

func TestSettleWaitsForQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBell()
		begin, done := time.Now(), make(chan error)
		go func() { done <- settle(t.Context(), nil, b.changed, 2*time.Second) }()
		for range 5 {
			time.Sleep(1500 * time.Millisecond)
			b.ring()
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
		b := newBell()
		go func() {
			for range 5 {
				time.Sleep(time.Second)
				b.ring()
			}
		}()
		begin := time.Now()
		err := settle(ctx, nil, b.changed, 2*time.Second)
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
