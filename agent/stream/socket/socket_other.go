//go:build !linux

package socket

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/spate-load/spate/clock"
)

// Socket is a TCP connection that knows when the program read the bytes of its last read. There are no kernel
// timestamps on this system, so every read is unstamped. One goroutine at a time may read.
type Socket struct {
	net.Conn
	Last Reading
	RTT  time.Duration // 0: not known
}

// Sweepers opens sockets. Each goroutine reads its own socket.
type Sweepers struct {
	// PacketTimes has no effect: it needs Linux.
	PacketTimes bool
}

// Dial opens a TCP connection from the next address of sources in turn.
func (s *Sweepers) Dial(ctx context.Context, sources *Sources, addr string) (*Socket, error) {
	c, err := sources.dial(ctx, addr, prepareSocket)
	if err != nil {
		return nil, err
	}
	return &Socket{Conn: c}, nil
}

// Close does nothing.
func (*Sweepers) Close() {}

// CheckPacketTimes returns an error: the times of packets need Linux.
func CheckPacketTimes() error { return errors.New("times of packets need Linux") }

// HoldStamping does nothing: there are no receive timestamps here.
func HoldStamping() {}

func askForStamps(syscall.RawConn) error { return nil }

// LocalPorts returns 0: local ports are not known on this system.
func LocalPorts() (first, count int) { return 0, 0 }

// window is all of the kernel's range of local ports.
type window struct{}

func nextWindow() window { return window{} }

// narrow does nothing on this system.
func (window) narrow(syscall.RawConn) {}

// portAtConnect does nothing on this system.
func portAtConnect(syscall.RawConn) {}

// Read implements net.Conn. It records when it returned bytes.
func (s *Socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		now := clock.Now()
		s.Last = Reading{At: now, Seen: now, Number: s.Last.Number + 1}
	}
	return n, err
}

// otherBuffer is the buffer size of Push.
const otherBuffer = 4 << 10

// Push passes received bytes to a consumer, and blocks until the consumer wants no more, reading fails or ctx ends. It
// returns the read error, io.EOF when the peer has closed, or the context's error.
func (s *Socket) Push(ctx context.Context, to Consumer) error {
	defer context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })()
	buffer := make([]byte, otherBuffer)
	for {
		n, err := s.Read(buffer)
		switch {
		case n > 0 && !to.Consume(buffer[:n], s.Last):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// Unread returns false: on this system it is not known.
func (s *Socket) Unread() bool { return false }
