package socket

import (
	"net"
	"testing"
)

// Connections take their ports from one window until it is full, and then from the rest of the range.
func TestPortsOfAWindow(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		t.Run(host, func(t *testing.T) {
			l, err := net.Listen("tcp", host+":0")
			if err != nil {
				t.Skip("this machine has no such address:", err)
			}
			defer l.Close()
			w := localPorts()
			turn := w.turn.Load()
			low, high := w.next()
			within := 0
			for n := range portWindow + 2 {
				w.turn.Store(turn)
				c, err := (*Sources)(nil).dial(t.Context(), l.Addr().String(), prepareSocket)
				if err != nil {
					t.Fatalf("connection %d: %v", n, err)
				}
				defer c.Close()
				port := c.LocalAddr().(*net.TCPAddr).Port
				if low <= port && port <= high {
					within++
				}
			}
			if within > portWindow || within < portWindow/2 { // some may be those of listeners
				t.Errorf("%d of %d connections are from ports %d to %d", within, portWindow+2, low, high)
			}
		})
	}
}

// Windows lie within the range of ports, begin at each place in turn, and are none if the range is small or not known.
func TestWindowsLieWithinTheRange(t *testing.T) {
	w := &windows{first: 1000, places: 3}
	seen := map[int]int{}
	for range 6 {
		low, high := w.next()
		if high != low+portWindow-1 {
			t.Errorf("%d to %d", low, high)
		}
		seen[low]++
	}
	if len(seen) != 3 || seen[1000] != 2 || seen[1001] != 2 || seen[1002] != 2 {
		t.Errorf("windows begin at %v", seen)
	}
	if low, high := new(windows).next(); low != 0 || high != 0 {
		t.Errorf("%d to %d without a range", low, high)
	}
}

// BenchmarkDial opens connections to one endpoint, and closes none. More than half of the range of ports shows what a
// search for a free port costs: unshare -n sh -c 'ip link set lo up;
// sysctl -w net.ipv4.ip_local_port_range="32768 44767"; go test -run NONE -bench Dial -benchtime 9000x ./agent/stream/socket'.
func BenchmarkDial(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var all []net.Conn
	defer func() {
		_ = l.Close()
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for b.Loop() {
		c, err := (*Sources)(nil).dial(b.Context(), l.Addr().String(), prepareSocket)
		if err != nil {
			b.Fatal(err)
		}
		there, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, c, there)
	}
}
