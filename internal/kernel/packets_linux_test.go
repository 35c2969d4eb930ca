package kernel

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// Each segment is noted with its place in the stream, and with a time at which the program did not read.
func TestPackets(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		p, near, far := watched(t, address)
		from := clock.Now()
		sent := []clock.Instant{from}
		lengths := []int{0, 5, 1, 40_000}
		for _, n := range lengths[1:] {
			if _, err := far.Write(make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, clock.Now())
		}
		cookie, err := Cookie(descriptorOf(t, near))
		if err != nil {
			t.Fatal(err)
		}
		var seq, read uint32
		for i := 0; i < len(sent); {
			s, ok := p.Next()
			if !ok {
				t.Fatalf("%s: %d of %d segments", address, i, len(sent))
			}
			if i == 0 {
				seq = s.Seq + 1
				from = 0 // the SYN came before
			} else if s.Seq != seq {
				t.Errorf("%s: segment %d begins at %d, want %d", address, i, s.Seq, seq)
			}
			if s.Cookie != cookie || s.SYN != (i == 0) || s.At < from || s.At > sent[i] {
				t.Errorf("%s: segment %d: %+v, sent from %d to %d, cookie %d", address, i, s, from, sent[i], cookie)
			}
			seq, read = seq+s.Length, read+s.Length
			if read == uint32(lengths[i]) { // a long write may be several segments
				from, read = sent[i], 0
				i++
			}
		}
		if s, ok := p.Next(); ok {
			t.Errorf("%s: one more segment: %+v", address, s)
		}
	}
}

// In a time namespace, whose clock is not the machine's, segments have the times of this process's clock.
func TestPacketsInATimeNamespace(t *testing.T) {
	unshare := []string{"--time", "--monotonic", "3600", "--boottime", "3600", "--fork"}
	if err := exec.CommandContext(t.Context(), "unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skipf("NO TIME NAMESPACE: unshare: %v: run as root, with util-linux", err)
	}
	said, err := exec.CommandContext(t.Context(), "unshare",
		append(unshare, os.Args[0], "-test.run=^TestPackets$", "-test.v")...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// What the kernel says of time namespaces.
func TestParseOffset(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"monotonic           0         0\nboottime            0         0\n":  0,
		"monotonic  3600  500000000\nboottime  7200  0\n":                     time.Hour + 500*time.Millisecond,
		"monotonic         -10         250000000\nboottime     0         0\n": -10*time.Second + 250*time.Millisecond,
	} {
		if got, err := parseOffset(text); got != want || err != nil {
			t.Errorf("%q: %v (%v), want %v", text, got, err, want)
		}
	}
	if got, err := parseOffset("boottime 1 2"); err == nil {
		t.Errorf("an offset that is not there: %v", got)
	}
}

// watched returns the ends of a connection, of which the first is watched from before it connects.
func watched(t testing.TB, address string) (p *Packets, near, far net.Conn) {
	t.Helper()
	p, err := OpenPackets()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("NOT TESTED: times of packets need root or CAP_BPF: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) { err = p.Watch(int(fd)) })
		return errors.Join(err, failed)
	}}
	if near, err = d.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return p, near, far
}

// descriptorOf returns the file descriptor of a connection, which stays open as long as the test.
func descriptorOf(t testing.TB, c net.Conn) (fd int) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(its uintptr) { fd = int(its) }); err != nil {
		t.Fatal(err)
	}
	return fd
}

// A full ring loses segments; what the connection carries stays whole.
func TestFullRing(t *testing.T) {
	p, near, far := watched(t, "127.0.0.1:0")
	const room = packetsRing / 32 // a record and its header
	b := make([]byte, 1)
	for range room + 1000 {
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	noted := 0
	for _, ok := p.Next(); ok; _, ok = p.Next() {
		noted++
	}
	if noted > room || noted < room-1 {
		t.Errorf("%d segments in the ring", noted)
	}
}

// What noting a segment costs, sending and reading included.
func BenchmarkSegments(b *testing.B) {
	for name, noted := range map[string]bool{"plain": false, "noted": true} {
		b.Run(name, func(b *testing.B) {
			p, near, far := watched(b, "127.0.0.1:0")
			to, from := descriptorOf(b, far), descriptorOf(b, near)
			if !noted {
				if err := unix.SetsockoptInt(from, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0); err != nil {
					b.Fatal(err)
				}
			}
			var r Receiver
			frame, buffer := make([]byte, 250), make([]byte, 4<<10)
			for b.Loop() {
				if _, err := Send(to, frame); err != 0 {
					b.Fatal(err)
				}
				if n, err := r.Receive(from, buffer); n != len(frame) {
					b.Fatal(n, err)
				}
				for _, ok := p.Next(); ok; _, ok = p.Next() {
				}
			}
		})
	}
}

// A thread without the right does not call bpf, for which a filter of system calls may end the process.
func TestPacketsNeedARight(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		t.Fatal(err)
	}
	if p, err := OpenPackets(); !errors.Is(err, os.ErrPermission) || mayLoad() {
		t.Errorf("%v, %v", p, err)
	}
}
