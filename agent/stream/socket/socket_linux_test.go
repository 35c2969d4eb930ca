package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/internal/kernel"
)

// sockets returns the two ends of a TCP connection.
func sockets(s *Sweepers) (one, other *Socket, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if one, err = s.Dial(context.Background(), nil, l.Addr().String()); err != nil {
		return nil, nil, err
	}
	far, err := l.Accept()
	if err != nil {
		return nil, nil, errors.Join(err, one.Close())
	}
	w, err := s.next()
	if err == nil {
		other, err = wrap(far, w)
	}
	if err != nil {
		return nil, nil, errors.Join(err, one.Close())
	}
	return one, other, nil
}

func newSockets(t *testing.T) (one, other *Socket) {
	t.Helper()
	s := new(Sweepers)
	one, other, err := sockets(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); other.Close(); s.Close() })
	return one, other
}

// A socket is a net.Conn like any other.
func TestSocketIsAConnection(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		s := new(Sweepers)
		one, other, err := sockets(s)
		return one, other, func() { one.Close(); other.Close(); s.Close() }, err
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
	go func() { errs <- one.Push(t.Context(), consumerFunc(func([]byte, Reading) bool { return true })) }()
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	if one.Quiet() || one.Unread() {
		t.Error("a closed socket is neither quiet nor has anything to read")
	}
	if err := one.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// stillWriting reports whether the kernel accepts more.
func (s *Socket) stillWriting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := kernel.Send(s.fd, []byte{0})
	return err == 0
}

// consumerFunc is a function as a consumer.
type consumerFunc func(p []byte, by Reading) bool

func (f consumerFunc) Consume(p []byte, by Reading) bool { return f(p, by) }

// Exactly the sent bytes are pushed, including those that came before push, until the consumer wants no more, the peer
// closes or the context ends.
func TestPush(t *testing.T) {
	for name, tt := range map[string]struct {
		want string
		over func(other *Socket, stop func())
		err  error
	}{
		"enough":          {"0123456789", func(*Socket, func()) {}, nil},
		"the other's end": {"01234567890", func(o *Socket, _ func()) { o.Close() }, io.EOF},
		"the context's":   {"01234567890", func(_ *Socket, stop func()) { stop() }, context.Canceled},
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
			err := one.Push(ctx, consumerFunc(func(p []byte, by Reading) bool {
				got.Write(p)
				if by.Number != number+1 || by.At == 0 || by.Seen < by.At {
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
	err := one.Push(t.Context(), consumerFunc(func(p []byte, _ Reading) bool {
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
		if err := one.Push(t.Context(), consumerFunc(func(p []byte, _ Reading) bool {
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
	if !one.Quiet() {
		t.Error("there is more")
	}
}

func readBy(t *testing.T, s *Socket, at time.Time) {
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
