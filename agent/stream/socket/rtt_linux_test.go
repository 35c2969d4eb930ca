package socket

import (
	"net"
	"syscall"
	"testing"
)

// The round trip of a connection without that socket option is not known.
func TestUnknownRoundTrip(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if rtt := roundTrip(int(fd)); rtt != 0 {
			t.Errorf("round trip %v of a socket without connections", rtt)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
