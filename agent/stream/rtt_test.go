package stream

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/testserver"
)

// Only the first request on a connection has the round trip that the kernel measured when the connection was opened.
func TestRoundTripOfANewConnection(t *testing.T) {
	s := testserver.NewRaw(t, answer(chunkedHead+chunk(tokenFrame("a"))+chunk(doneFrame)+lastChunk))
	if !measuresRoundTrips(t, s.Addr().String()) {
		t.Skip("this system does not tell round trips")
	}
	c := newTestClient(t, Config{Endpoints: []string{s.URL}})
	for i := range 3 {
		o := ask(t, c)
		if (o.RTT > 0) != (i == 0) || o.RTT > o.Connect || o.RTT%time.Microsecond != 0 {
			t.Errorf("request %d: round trip %v, connected in %v, %v", i, o.RTT, o.Connect, o.Err)
		}
	}
}

// measuresRoundTrips reports whether this system's TCP_INFO has round trips. Linux's has; that of compatible systems
// may not.
func measuresRoundTrips(t *testing.T, addr string) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		return false
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var s socket.Sweepers
	defer s.Close()
	opened, err := socket.Wrap(c, &s)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	return opened.RTT > 0
}
