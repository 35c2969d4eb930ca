package kernel

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

// eachWidth runs a test on one processor, and on two.
func eachWidth(t *testing.T, test func(t *testing.T)) {
	for name, n := range map[string]int{"alone": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			before := runtime.GOMAXPROCS(n)
			t.Cleanup(func() { runtime.GOMAXPROCS(before) })
			test(t)
		})
	}
}

func TestWaitAwakeNeverReturnsEarly(t *testing.T) {
	eachWidth(t, func(t *testing.T) {
		for name, timer := range kinds(t, t.Context()) {
			for _, d := range []time.Duration{-time.Millisecond, 0, 1, 20 * time.Microsecond, 100 * time.Microsecond,
				3 * time.Millisecond} {
				at := clock.Now().Add(d)
				if err := timer.WaitAwake(at); err != nil || clock.Now() < at {
					t.Fatalf("%s: %v, %v early after a wait of %v", name, err, clock.Until(at), d)
				}
			}
		}
	})
}

// Whether asleep or awake, a wait ends when it is woken, and when its context ends.
func TestWaitAwakeIsEnded(t *testing.T) {
	eachWidth(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for name, timer := range kinds(t, ctx) {
			for _, m := range []margin{0, margin(time.Hour)} {
				for range 200 {
					timer.margin = m
					go timer.Wake()
					if err := timer.WaitAwake(clock.Now().Add(time.Hour)); !errors.Is(err, ErrWoken) {
						t.Fatalf("%s, margin %v: %v", name, time.Duration(m), err)
					}
				}
			}
		}
		for name, timer := range kinds(t, ctx) {
			timer.margin = margin(time.Hour)
			time.AfterFunc(time.Millisecond, cancel)
			if err := timer.WaitAwake(clock.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}

// A goroutine that waits awake on the only processor blocks no other, not even one that only the kernel knows to be
// runnable. Neither does one that finds all its instants passed.
func TestWaitAwakeLetsOthersRun(t *testing.T) {
	if a, err := newPrecise(t.Context()); err != nil {
		t.Skip("no precise timer on this system: ", err)
	} else if err := a.close(); err != nil {
		t.Fatal(err)
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	timer := NewTimer(t.Context())
	defer timer.Close()
	for name, waits := range map[string]func() error{
		"awake": func() error {
			timer.margin = margin(time.Hour)
			return timer.WaitAwake(clock.Now().Add(5 * time.Millisecond)) // sysmon looks every 10 ms
		},
		"late": func() (err error) {
			for range 2 * maxMissed {
				err = errors.Join(err, timer.WaitAwake(1))
			}
			return err
		},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var heard atomic.Int32
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := r.Read(make([]byte, 1)); err != nil {
					return
				}
				heard.Add(1)
			}
		}()
		runtime.Gosched() // the reader is waiting by now
		if _, err := w.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if err := waits(); err != nil {
			t.Fatal(err)
		}
		if heard.Load() != 1 {
			t.Errorf("%s: what waited for the network did not run", name)
		}
		w.Close()
		<-done
		r.Close()
	}
}
