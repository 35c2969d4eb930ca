package yielding

import (
	"encoding/binary"
	"io"
	"net"
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

// Data on a yielding connection over a slow link leaves room for other connections: their round trips stay far shorter
// than the queue, which TCP would fill. All of the data arrives.
func TestOtherConnectionsStayPrompt(t *testing.T) {
	lab := netlab.New(t)
	a, b := lab.Host("a"), lab.Host("b")
	const perSecond, bytes = 16_000, 100_000
	lab.OneWay(a, b, netlab.Path{Delay: 20 * time.Millisecond, Bandwidth: 8 * perSecond})
	lab.OneWay(b, a, netlab.Path{Delay: 20 * time.Millisecond})
	bulk, done := connect(t, a, b, func(c net.Conn) error { _, err := io.CopyN(io.Discard, c, bytes); return err })
	small, _ := connect(t, a, b, func(c net.Conn) error { _, err := io.Copy(c, c); return err })
	begin := time.Now()
	go func() { _, _ = Conn(bulk).Write(make([]byte, bytes)) }()
	var longest time.Duration
	pings := uint32(0)
	for {
		select {
		case err := <-done:
			took := time.Since(begin)
			t.Logf("%d bytes took %v; %d round trips beside them, %v at most", bytes, took, pings, longest)
			if err != nil || pings < 3 {
				t.Fatalf("%d round trips; %v", pings, err)
			}
			if longest > 1500*time.Millisecond {
				t.Errorf("a round trip took %v", longest)
			}
			if took > 5*bytes/perSecond*time.Second {
				t.Errorf("the line carries it in %v, and it took %v", bytes/perSecond*time.Second, took)
			}
			return
		default:
			pings++
			longest = max(longest, bounce(t, small, pings))
		}
	}
}

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
func bounce(t *testing.T, conn net.Conn, n uint32) time.Duration {
	t.Helper()
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	begin := time.Now()
	if _, err := conn.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
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
