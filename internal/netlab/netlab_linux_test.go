package netlab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// part is the environment variable that makes this test's program play a part in a test, as a process on a host.
const part = "NETLAB_PART"

func TestMain(m *testing.M) {
	switch os.Getenv(part) {
	case "":
		goleak.VerifyTestMain(m)
	case "addresses":
		playAddresses()
	case "clock":
		playClock()
	case "orphan":
		playOrphan(m)
	}
}

// playAddresses prints the addresses of the machine it runs on.
func playAddresses() {
	addrs, err := net.InterfaceAddrs()
	fmt.Print(addrs, err)
}

// playClock prints the monotonic clock as read by the kernel and by Go, and the seconds since 1970.
func playClock() {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	fmt.Println(ts.Nano(), int64(clock.Now()), time.Now().Unix())
}

// self makes this program a process on a host.
func self(t *testing.T, c *Command, play string) *Command {
	t.Helper()
	c.Env = append(os.Environ(), part+"="+play)
	c.Stderr = os.Stderr
	return c
}

func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// echo sends back everything that is sent to a host over TCP, until the test ends. It returns the address.
func echo(t testing.TB, h *Host) string {
	t.Helper()
	l, err := h.Listen(t.Context(), "tcp", h.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func dial(t testing.TB, from *Host, address string) net.Conn {
	t.Helper()
	conn, err := from.Dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// bounce sends a number and waits for it to come back.
func bounce(conn net.Conn, n uint32) (time.Duration, error) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	begin := time.Now()
	if _, err := conn.Write(b[:]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return 0, err
	}
	if got := binary.BigEndian.Uint32(b[:]); got != n {
		return 0, fmt.Errorf("%d came back as %d", n, got)
	}
	return time.Since(begin), nil
}

// TestDelayIsWhatWasAsked: the network never answers sooner than both directions allow. How much later it answers
// depends on the machine's load.
func TestDelayIsWhatWasAsked(t *testing.T) {
	lab := New(t)
	eu, us := lab.Host("eu-1"), lab.Host("us-1")
	lab.OneWay(eu, us, Path{Delay: 20 * time.Millisecond})
	lab.OneWay(us, eu, Path{Delay: 30 * time.Millisecond, Jitter: 5 * time.Millisecond})
	conn := dial(t, eu, echo(t, us))
	var took []time.Duration
	for i := range 20 {
		d, err := bounce(conn, uint32(i))
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	t.Logf("50 to 55 ms were asked for; the round trip took %v at least, %v in the median, %v at most", took[0],
		took[10], took[19])
	if took[0] < 50*time.Millisecond {
		t.Errorf("a round trip of 50 ms took %v", took[0])
	}
	if took[0] > 500*time.Millisecond {
		t.Errorf("a round trip of 50 ms took %v at best", took[0])
	}
}

// TestBandwidthIsABound: 250 kB over 4 Mbit/s take at least half a second.
func TestBandwidthIsABound(t *testing.T) {
	lab := New(t)
	a, b := lab.Host("a"), lab.Host("b")
	lab.OneWay(a, b, Path{Bandwidth: 4e6})
	conn := dial(t, a, echo(t, b))
	const bytes = 250_000
	begin := time.Now()
	go func() { _, _ = conn.Write(make([]byte, bytes)) }()
	if _, err := io.CopyN(io.Discard, conn, bytes); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	count := lab.Count(a, b)
	t.Logf("%d bytes took %v: %.2f Mbit/s of 4; %+v", bytes, took, bytes*8/took.Seconds()/1e6, count)
	// What a packet queue holds at the end has not arrived yet. Nothing may arrive too early.
	if took < 500*time.Millisecond {
		t.Errorf("%d bytes came through 4 Mbit/s in %v", bytes, took)
	}
	if count.Bytes < bytes {
		t.Errorf("%+v: %d bytes were sent", count, bytes)
	}
}

// TestPartitionAndHeal: a cut link carries nothing, other links work, and TCP continues after the link is healed.
func TestPartitionAndHeal(t *testing.T) {
	lab := New(t)
	a, b, c := lab.Host("a"), lab.Host("b"), lab.Host("c")
	address := echo(t, b)
	cut, whole := dial(t, a, address), dial(t, c, address)
	if _, err := bounce(cut, 1); err != nil {
		t.Fatal(err)
	}
	lab.Partition(a, b)
	if err := cut.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := bounce(cut, 2); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("over a cut link: %v, want a time-out", err)
	}
	if _, err := bounce(whole, 3); err != nil {
		t.Errorf("over another link: %v", err)
	}
	if n := lab.Count(a, b).Blocked; n == 0 {
		t.Error("the cut link has blocked nothing")
	}
	lab.Heal(a, b)
	if err := cut.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var late [4]byte
	if _, err := io.ReadFull(cut, late[:]); err != nil || binary.BigEndian.Uint32(late[:]) != 2 {
		t.Errorf("after healing: %v, %v; what was sent meanwhile must come", late, err)
	}
}

// TestUDPAloneIsBlocked: datagrams are dropped in both directions, TCP works.
func TestUDPAloneIsBlocked(t *testing.T) {
	lab := New(t)
	a, b := lab.Host("a"), lab.Host("b")
	receiver, err := b.ListenPacket(t.Context(), "udp", b.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	sender, err := a.Dial(t.Context(), "udp", receiver.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	conn := dial(t, a, echo(t, b))

	lab.BlockUDP(a, b)
	if _, err := sender.Write([]byte("lost")); err != nil {
		t.Fatal(err)
	}
	if _, err := bounce(conn, 1); err != nil { // was sent later, and has arrived
		t.Fatal(err)
	}
	lab.Heal(a, b)
	if _, err := sender.Write([]byte("here")); err != nil {
		t.Fatal(err)
	}
	if err := receiver.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var got [16]byte
	if n, _, err := receiver.ReadFrom(got[:]); err != nil || string(got[:n]) != "here" {
		t.Errorf("received %q, %v; want the second datagram only", got[:n], err)
	}
}

// TestProcessesAreOnTheirHost: a process sees only loopback and the host's address, nothing of this machine.
func TestProcessesAreOnTheirHost(t *testing.T) {
	lab := New(t)
	h := lab.Host("h")
	if lab.Host("h") != h || h.Name() != "h" {
		t.Error("one name stands for two hosts")
	}
	out, err := self(t, h.Command(t.Context(), program(t)), "addresses").Output()
	if want := fmt.Sprintf("[127.0.0.1/8 %s/16", h.IP()); err != nil || len(out) < len(want) ||
		string(out[:len(want)]) != want {
		t.Errorf("%s, %v; want %s", out, err, want)
	}
	if err := h.Command(t.Context(), "/nowhere").Start(); err == nil {
		t.Error("a program that is not there was started")
	}
}

// TestSkewedProcesses: the clocks since boot are ahead, also for Go, and the wall clock is not.
func TestSkewedProcesses(t *testing.T) {
	lab := New(t)
	h := lab.Host("h")
	for _, offset := range []time.Duration{time.Hour + 250*time.Millisecond, -1500 * time.Millisecond} {
		before := int64(clock.Now())
		out, err := self(t, h.SkewedCommand(t.Context(), offset, program(t)), "clock").Output()
		after := int64(clock.Now())
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var kernel, program, wall int64
		if _, err := fmt.Sscan(string(out), &kernel, &program, &wall); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		for name, at := range map[string]int64{"the kernel's": kernel, "Go's": program} {
			if at < before+int64(offset) || at > after+int64(offset) {
				t.Errorf("offset %v: %s clock is %v ahead", offset, name, time.Duration(at-before))
			}
		}
		if d := time.Now().Unix() - wall; d < 0 || d > 60 {
			t.Errorf("the wall clock differs by %d s", d)
		}
	}
}

// TestProcessesEndWithTheLab: running processes are killed.
func TestProcessesEndWithTheLab(t *testing.T) {
	var sleeper *Command
	t.Run("lab", func(t *testing.T) {
		sleeper = New(t).Host("h").Command(context.Background(), "sleep", "1000")
		if err := sleeper.Start(); err != nil {
			t.Fatal(err)
		}
	})
	if sleeper == nil {
		t.Skip("the lab did not run")
	}
	if s := sleeper.ProcessState; s == nil || s.Success() {
		t.Errorf("the process ended with %v, want killed", s)
	}
}

// playOrphan starts a process in a lab, prints its process ID, and waits to be killed.
func playOrphan(m *testing.M) {
	t := &testing.T{}
	c := New(t).Host("h").Command(context.Background(), "sleep", "1000")
	if err := c.Start(); err != nil {
		panic(err)
	}
	fmt.Println(c.Process.Pid)
	time.Sleep(time.Hour) // the runtime ends a program all of whose goroutines wait for each other
}

// TestProcessesEndWithAKilledTest: kill -9 of the test's process leaves no process.
func TestProcessesEndWithAKilledTest(t *testing.T) {
	lab := New(t)
	c := self(t, lab.Host("h").Command(t.Context(), program(t)), "orphan")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlives the test that started it", pid)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// alive reports whether a process is running: it exists and is not a zombie.
func alive(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	var id int
	var name, state string
	_, err = fmt.Sscan(string(status), &id, &name, &state)
	return err == nil && state != "Z" && state != "X"
}
