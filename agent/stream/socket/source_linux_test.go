package socket

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// Connections take their ports from one window until it is full, and then from the rest of the range. They come from
// the address that they are to come from.
func TestPortsOfAWindow(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, 0); err != nil {
		t.Skip("this kernel does not have IP_LOCAL_PORT_RANGE:", err)
	}
	w := localPorts()
	if w.count == 0 {
		t.Skip("this system has few local ports")
	}
	for host, sources := range map[string]*Sources{
		"127.0.0.1": nil, "127.0.0.2": NewSources([]netip.Addr{netip.MustParseAddr("127.0.0.3")}), "[::1]": nil,
	} {
		t.Run(host, func(t *testing.T) {
			l, err := net.Listen("tcp", host+":0")
			if err != nil {
				t.Skip("this machine has no such address:", err)
			}
			defer l.Close()
			turn := w.turn.Load()
			in, within := w.next(), 0
			for n := range portWindow + 8 {
				w.turn.Store(turn)
				c, err := sources.dial(t.Context(), l.Addr().String(), prepareSocket)
				if err != nil {
					t.Fatalf("connection %d: %v", n, err)
				}
				defer c.Close()
				at := c.LocalAddr().(*net.TCPAddr).AddrPort()
				if port := int(at.Port()); in.low <= port && port <= in.high {
					within++
				}
				if sources != nil && at.Addr() != sources.v4[0] {
					t.Fatalf("it comes from %v", at)
				}
			}
			if within > portWindow || within < portWindow/2 { // some may be those of listeners
				t.Errorf("%d of %d connections are from ports %d to %d", within, portWindow+8, in.low, in.high)
			}
		})
	}
}

// Windows lie within the range of ports, begin at each port in turn, and are all of it if the range is small.
func TestWindowsLieWithinTheRange(t *testing.T) {
	w := &windows{first: 1000, count: 3}
	seen := map[int]int{}
	for range 6 {
		of := w.next()
		if of.high != of.low+portWindow-1 {
			t.Errorf("%+v", of)
		}
		seen[of.low]++
	}
	if len(seen) != 3 || seen[1000] != 2 || seen[1001] != 2 || seen[1002] != 2 {
		t.Errorf("windows begin at %v", seen)
	}
	if all := new(windows).next(); all != (window{}) {
		t.Errorf("%+v without a range", all)
	}
}

// BenchmarkDial opens connections to one endpoint, and closes none. With more than half of the range of ports it shows
// what a search for a free port costs: unshare -n sh -c 'ip link set lo up;
// sysctl -w net.ipv4.ip_local_port_range="32768 44767"; go test -run NONE -bench Dial -benchtime 9500x ./agent/stream/socket'.
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
