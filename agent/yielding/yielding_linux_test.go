package yielding

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/netlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The window grows after it was full and drained without a queue, and shrinks with a queue.
func TestWindow(t *testing.T) {
	const ms = time.Millisecond
	near, far := state{0, 151 * ms, 150 * ms}, state{0, 151*ms + maxQueueing, 150 * ms}
	with := func(s state, unacked int) state { s.unacked = unacked; return s }
	w := window{bytes: chunkBytes}
	for i, step := range []struct {
		state
		admits bool
		bytes  int
	}{
		{with(near, 0), true, chunkBytes},
		{with(near, chunkBytes), false, chunkBytes},
		{with(near, chunkBytes/2+1), true, chunkBytes},
		{with(near, chunkBytes/2), true, 2 * chunkBytes},
		{with(near, chunkBytes), true, 2 * chunkBytes},
		{with(near, 0), true, 2 * chunkBytes}, // it has not been full since
		{with(near, 2*chunkBytes), false, 2 * chunkBytes},
		{with(near, chunkBytes), true, 4 * chunkBytes},
		{with(far, chunkBytes), false, chunkBytes},
		{with(far, chunkBytes-1), true, chunkBytes},
		{with(near, 0), true, chunkBytes},
	} {
		if got := w.admits(step.state); got != step.admits || w.bytes != step.bytes {
			t.Errorf("step %d: %+v: %v, window %d; want %v, %d", i, step.state, got, w.bytes, step.admits, step.bytes)
		}
	}
	for range 20 {
		w.admits(with(near, w.bytes))
		w.admits(near)
	}
	if w.bytes != maxWindow {
		t.Errorf("the window is %d, want %d at most", w.bytes, maxWindow)
	}
}

// Data on a yielding connection over a slow link leaves room for other connections: their round trips are far shorter
// than beside data on a plain connection, whose TCP fills the queue of an equal link at the same time. All of the data
// arrives, in little more time.
func TestOtherConnectionsStayPrompt(t *testing.T) {
	lab := netlab.New(t)
	var yields, plain beside
	var both sync.WaitGroup
	for _, way := range []struct {
		name string
		wrap func(net.Conn) net.Conn
		into *beside
	}{{"yielding", Conn, &yields}, {"plain", func(c net.Conn) net.Conn { return c }, &plain}} {
		from, to := lab.Host(way.name+"-1"), lab.Host(way.name+"-2")
		lab.OneWay(from, to, netlab.Path{Delay: 20 * time.Millisecond, Bandwidth: 8 * 16_000})
		lab.OneWay(to, from, netlab.Path{Delay: 20 * time.Millisecond})
		bulk, done := connect(t, from, to, func(c net.Conn) error {
			_, err := io.CopyN(io.Discard, c, bytes)
			return err
		})
		small, _ := connect(t, from, to, func(c net.Conn) error { _, err := io.Copy(c, c); return err })
		both.Go(func() { *way.into = measureBeside(way.wrap(bulk), small, done) })
	}
	both.Wait()
	t.Logf("yielding: %+v; plain: %+v", yields, plain)
	switch err := errors.Join(yields.err, plain.err); {
	case err != nil:
		t.Fatal(err)
	case len(yields.trips) < 3:
		t.Fatalf("round trips %v", yields.trips)
	case median(yields.trips) > median(plain.trips)/2:
		t.Errorf("round trips took %v, beside a connection that does not yield %v", yields.trips, plain.trips)
	case yields.took > 2*plain.took:
		t.Errorf("the data took %v, without yielding %v", yields.took, plain.took)
	}
}

// bytes is how much data passes beside the round trips: some seconds of the link's bandwidth.
const bytes = 100_000

// beside is what was measured beside data on another connection.
type beside struct {
	took  time.Duration // until all of the data arrived
	trips []time.Duration
	err   error
}

// measureBeside sends data on one connection and measures round trips on another one, until the data has arrived.
func measureBeside(bulk, small net.Conn, done <-chan error) (b beside) {
	begin := time.Now()
	go func() { _, _ = bulk.Write(make([]byte, bytes)) }()
	for {
		select {
		case b.err = <-done:
			b.took = time.Since(begin)
			return b
		default:
		}
		trip, err := bounce(small, uint32(len(b.trips)+1))
		if err != nil {
			b.err = err
			return b
		}
		b.trips = append(b.trips, trip)
	}
}

func median(of []time.Duration) time.Duration { return slices.Sorted(slices.Values(of))[len(of)/2] }

// connect makes a connection between two hosts. done receives the result of serve.
func connect(t *testing.T, from, to *netlab.Host, serve func(net.Conn) error) (conn net.Conn, done <-chan error) {
	t.Helper()
	l, err := to.Listen(t.Context(), "tcp", to.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	conn, err = from.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- serve(accepted)
	}()
	t.Cleanup(func() { conn.Close(); accepted.Close(); l.Close(); <-over })
	return conn, ended
}

// bounce sends a number, waits until it comes back, and returns the round trip.
func bounce(conn net.Conn, n uint32) (time.Duration, error) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	begin := time.Now()
	if _, err := conn.Write(b[:]); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(conn, b[:])
	return time.Since(begin), err
}

// A write that waits for the link returns when the connection is closed, as gRPC requires.
func TestCloseEndsAWaitingWrite(t *testing.T) {
	lab := netlab.New(t)
	a, b := lab.Host("a"), lab.Host("b")
	lab.OneWay(a, b, netlab.Path{Bandwidth: 16_000})
	raw, _ := connect(t, a, b, func(c net.Conn) error { _, err := io.Copy(io.Discard, c); return err })
	c := Conn(raw).(*conn)
	ended := make(chan error, 1)
	go func() { _, err := c.Write(make([]byte, 1<<20)); ended <- err }()
	for begin := time.Now(); ; <-time.After(pollPause) {
		if s, known := c.look(); known && s.unacked > chunkBytes {
			break
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal("the line never got busy")
		}
	}
	lab.Partition(a, b)
	c.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("1 MiB was written in no time")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the write does not end")
	}
}
