package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
)

const (
	// forever is longer than anything here lasts.
	forever = time.Hour
	// patience is how long the first frames of all streams may take.
	patience = 30 * time.Second
)

// taker processes the answers on one stream. Its methods run on the stream's goroutine.
type taker struct {
	observation stream.Observation
	frames      atomic.Uint64
	reads       atomic.Uint64 // that ended a frame
	measuring   *atomic.Pointer[errorsOf]
	untilCheck  int
	begun       func() // called at the first frame
	once        bool
}

// token counts a frame with a token.
func (t *taker) token(clock.Instant, int) {
	t.frames.Add(1)
	t.reads.Add(uint64(len(t.observation.Lags)))
	if !t.once {
		t.once = true
		t.begun()
	}
	// The client under test must not grow with the length of its answer: no user's answers are as long.
	t.observation.Frames, t.observation.Lags = t.observation.Frames[:0], t.observation.Lags[:0]
}

var sentField = []byte(`"sent_ns":`)

// sentTail is how far before the end of a frame the simulator writes sentField.
const sentTail = 40

// checkEvery says that the times of one of so many frames are compared: that takes 100 ns, which no client spends.
const checkEvery = 16

// frame compares the times of one of checkEvery frames with the true time in the frame, if there is one.
func (t *taker) frame(data []byte, at, seen clock.Instant) {
	if t.untilCheck--; t.untilCheck > 0 {
		return
	}
	e := t.measuring.Load()
	if e == nil {
		return
	}
	t.untilCheck = checkEvery
	tail := data[max(0, len(data)-sentTail):] // a search of the whole frame would cost a tenth of all work on a frame
	_, after, ok := bytes.Cut(tail, sentField)
	if !ok {
		return
	}
	var sent clock.Instant
	for _, digit := range after {
		if digit < '0' || digit > '9' {
			break
		}
		sent = 10*sent + clock.Instant(digit-'0')
	}
	e.stamp.add(at.Sub(sent))
	e.program.add(seen.Sub(sent))
}

// errorsOf are the errors of a client's times: by the kernel's timestamp, and by the program's own clock.
type errorsOf struct{ stamp, program distribution }

// usage is what the process has used up to an instant.
type usage struct {
	at       clock.Instant
	user, os time.Duration
	frames   uint64
	reads    uint64
	requests uint64
}

// bench is a measurement in progress.
type bench struct {
	takers    []taker
	requests  atomic.Uint64
	measuring atomic.Pointer[errorsOf]
	failures  chan error
}

// measure runs the streams and reports what they cost.
func measure(ctx context.Context, s *settings, c client) error {
	ctx, cancel := context.WithCancel(ctx)
	b := &bench{takers: make([]taker, s.streams), failures: make(chan error, s.streams)}
	var all, begun sync.WaitGroup
	defer all.Wait()
	defer cancel()
	begun.Add(s.streams)
	for i := range b.takers {
		t := &b.takers[i]
		t.measuring, t.begun = &b.measuring, begun.Done
		all.Go(func() { b.repeat(ctx, c, t) })
	}
	if err := b.await(&begun); err != nil {
		return err
	}
	if err := b.rest(s.warmup); err != nil {
		return err
	}
	e := new(errorsOf)
	b.measuring.Store(e)
	before := b.usage()
	err := b.rest(s.length)
	after := b.usage()
	b.measuring.Store(nil)
	if err == nil {
		report(s, before, after, e)
	}
	return err
}

// repeat sends one request after another.
func (b *bench) repeat(ctx context.Context, c client, t *taker) {
	for ctx.Err() == nil {
		if err := c.do(ctx, t); err != nil {
			b.failures <- err
			return
		}
		b.requests.Add(1)
	}
}

// await blocks until all streams have started.
func (b *bench) await(begun *sync.WaitGroup) error {
	all := make(chan struct{})
	go func() { begun.Wait(); close(all) }()
	select {
	case <-all:
		return nil
	case err := <-b.failures:
		return err
	case <-time.After(patience):
		return errors.New("not all streams had a frame within " + patience.String())
	}
}

// rest blocks for the given time, unless a request fails.
func (b *bench) rest(length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case err := <-b.failures:
		return err
	}
}

// usage returns what was used so far.
func (b *bench) usage() usage {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // cannot fail for the calling process
	u := usage{at: clock.Now(), user: time.Duration(r.Utime.Nano()), os: time.Duration(r.Stime.Nano()),
		requests: b.requests.Load()}
	for i := range b.takers {
		u.frames += b.takers[i].frames.Load()
		u.reads += b.takers[i].reads.Load()
	}
	return u
}

// report prints one line.
func report(s *settings, from, to usage, e *errorsOf) {
	frames, requests := float64(to.frames-from.frames), float64(to.requests-from.requests)
	cpu := (to.user - from.user) + (to.os - from.os)
	fmt.Printf("client=%s streams=%d seconds=%.3f frames=%.0f reads=%d user_us=%.3f sys_us=%.3f requests=%.0f requests_per_cpu_s=%.0f",
		s.client, s.streams, to.at.Sub(from.at).Seconds(), frames, to.reads-from.reads, us(to.user-from.user)/frames,
		us(to.os-from.os)/frames,
		requests, requests/cpu.Seconds())
	if e.stamp.count() > 0 {
		fmt.Print(" stamp_us=", &e.stamp, " program_us=", &e.program)
	}
	fmt.Println()
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
