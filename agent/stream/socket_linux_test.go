package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
)

// sockets returns the two ends of a TCP connection.
func sockets(s *sweepers) (one, other *socket, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	far, err := l.Accept()
	if err != nil {
		return nil, nil, errors.Join(err, near.Close())
	}
	one, err = newSocket(near, s)
	if err != nil {
		return nil, nil, errors.Join(err, far.Close())
	}
	if other, err = newSocket(far, s); err != nil {
		return nil, nil, errors.Join(err, one.Close())
	}
	return one, other, nil
}

func newSockets(t *testing.T) (one, other *socket) {
	t.Helper()
	s := new(sweepers)
	one, other, err := sockets(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); other.Close(); s.close() })
	return one, other
}

// A socket is a net.Conn like any other.
func TestSocketIsAConnection(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		s := new(sweepers)
		one, other, err := sockets(s)
		return one, other, func() { one.Close(); other.Close(); s.close() }, err
	})
}

// Goroutines that wait for a socket are woken when it is closed.
func TestClosedSocket(t *testing.T) {
	one, _ := newSockets(t)
	errs := make(chan error, 3)
	go func() { _, err := one.Read(make([]byte, 1)); errs <- err }()
	go func() {
		_, err := one.Write(make([]byte, 64<<20))
		errs <- err
	}()
	for one.stillWriting() {
		runtime.Gosched()
	}
	one.Close()
	go func() { errs <- one.push(t.Context(), consumerFunc(func([]byte, reading) bool { return true })) }()
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	if one.quiet() || one.unread() {
		t.Error("a closed socket is neither quiet nor has anything to read")
	}
	if err := one.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// stillWriting reports whether the kernel accepts more.
func (s *socket) stillWriting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := kernel.Send(s.fd, []byte{0})
	return err == 0
}

// consumerFunc is a function as a consumer.
type consumerFunc func(p []byte, by reading) bool

func (f consumerFunc) consume(p []byte, by reading) bool { return f(p, by) }

// Exactly the sent bytes are pushed, including those that came before push, until the consumer wants no more, the peer
// closes or the context ends.
func TestPush(t *testing.T) {
	for name, tt := range map[string]struct {
		want string
		over func(other *socket, stop func())
		err  error
	}{
		"enough":          {"0123456789", func(*socket, func()) {}, nil},
		"the other's end": {"01234567890", func(o *socket, _ func()) { o.Close() }, io.EOF},
		"the context's":   {"01234567890", func(_ *socket, stop func()) { stop() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			one, other := newSockets(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			io.WriteString(other, "012")
			first := make(chan struct{})
			go func() {
				<-first
				io.WriteString(other, "3456789")
			}()
			var got strings.Builder
			number := uint64(0)
			err := one.push(ctx, consumerFunc(func(p []byte, by reading) bool {
				got.Write(p)
				if by.number != number+1 || by.at == 0 || by.seen < by.at {
					t.Errorf("%+v behind read %d", by, number)
				}
				if number++; number == 1 {
					close(first)
				}
				if got.Len() == 10 {
					tt.over(other, stop)
				}
				return got.String() != tt.want
			}))
			if !errors.Is(err, tt.err) || !strings.HasPrefix(tt.want, got.String()) || got.Len() < 10 {
				t.Errorf("%v, %q", err, got.String())
			}
		})
	}
}

// The peer may have closed before push is called.
func TestPushAfterTheEnd(t *testing.T) {
	one, other := newSockets(t)
	io.WriteString(other, "0123456789")
	other.Close()
	for ended := false; !ended; runtime.Gosched() {
		one.mu.Lock()
		info, err := unix.GetsockoptTCPInfo(one.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		one.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		ended = info.State != 1 // ESTABLISHED
	}
	if _, err := io.ReadFull(one, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	for range 100 { // until the sweeper has handled epoll's events
		runtime.Gosched()
	}
	got := ""
	err := one.push(t.Context(), consumerFunc(func(p []byte, _ reading) bool {
		got += string(p)
		return true
	}))
	if !errors.Is(err, io.EOF) || got != "3456789" {
		t.Errorf("%v, %q", err, got)
	}
}

// After push a socket can be read again, and no bytes are lost.
func TestPushAndRead(t *testing.T) {
	one, other := newSockets(t)
	for i := range 100 {
		text := fmt.Sprintf("piece %d.", i)
		go io.WriteString(other, text+"read")
		got := ""
		if err := one.push(t.Context(), consumerFunc(func(p []byte, _ reading) bool {
			got += string(p)
			return !strings.Contains(got, ".")
		})); err != nil {
			t.Fatal(err)
		}
		rest := make([]byte, len(text+"read")-len(got))
		if _, err := io.ReadFull(one, rest); err != nil || got+string(rest) != text+"read" {
			t.Fatalf("%v, %q", err, got+string(rest))
		}
	}
	if !one.quiet() {
		t.Error("there is more")
	}
}

func readBy(t *testing.T, s *socket, at time.Time) {
	t.Helper()
	if err := s.SetReadDeadline(at); err != nil {
		t.Fatal(err)
	}
}

// A limit that was moved does not end a wait early, and one that has passed can be moved again.
func TestLimitIsMoved(t *testing.T) {
	one, other := newSockets(t)
	p := make([]byte, 1)
	readBy(t, one, time.Now().Add(time.Millisecond))
	readBy(t, one, time.Now().Add(time.Hour))
	go io.WriteString(other, "a")
	if _, err := one.Read(p); err != nil {
		t.Error(err)
	}
	readBy(t, one, time.Now().Add(time.Millisecond))
	if _, err := one.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	readBy(t, one, time.Time{})
	go io.WriteString(other, "b")
	if _, err := one.Read(p); err != nil || p[0] != 'b' {
		t.Error(err)
	}
}

// Many concurrent streams on few sweepers, written in pieces of different sizes, all arrive whole.
func TestManyStreamsAtATime(t *testing.T) {
	const streams, requests = 100, 5
	s := newRawServer(t, func(c net.Conn, r *bufio.Reader) {
		for i := 1; takeRequest(r); i++ {
			wire := chunkedHead
			for range 10 * i {
				wire += chunk(tokenFrame("word"))
			}
			wire += chunk(doneFrame) + lastChunk
			for len(wire) > 0 {
				n := min(len(wire), 700*i)
				io.WriteString(c, wire[:n])
				wire = wire[n:]
			}
		}
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			for range requests {
				var o Observation
				c.Do(t.Context(), Request{Body: body(c)}, &o)
				if o.Err != nil || o.TokenFrames == 0 || o.TokenFrames%10 != 0 ||
					len(o.Gaps(nil)) != int(o.TokenFrames)-1 || o.End < o.LastToken {
					t.Errorf("%v, %d frames, %d gaps", o.Err, o.TokenFrames, len(o.Gaps(nil)))
				}
			}
		})
	}
	all.Wait()
}

// Closing a client ends its requests in flight, and leaves nothing behind.
func TestCloseDuringRequests(t *testing.T) {
	s := newRawServer(t, func(c net.Conn, r *bufio.Reader) {
		takeRequest(r)
		io.WriteString(c, chunkedHead+chunk(tokenFrame("a")))
		io.Copy(io.Discard, c)
	})
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	var all, begun sync.WaitGroup
	for range 20 {
		begun.Add(1)
		all.Go(func() {
			var o Observation
			c.Do(t.Context(), Request{Body: body(c), OnToken: func(clock.Instant, int) { begun.Done() }}, &o)
			if o.Err == nil || o.TokenFrames != 1 {
				t.Errorf("%v, %d frames", o.Err, o.TokenFrames)
			}
		})
	}
	begun.Wait()
	c.Close()
	all.Wait()
}
