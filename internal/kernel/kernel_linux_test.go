package kernel

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
)

// pair returns the two ends of a connection within this machine.
func pair(t *testing.T) (one, other int) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Close(ends[0])
		_ = unix.Close(ends[1])
	})
	return ends[0], ends[1]
}

// No call blocks: EAGAIN means that nothing is there yet, and 0 bytes that the other side has closed.
func TestSocket(t *testing.T) {
	one, other := pair(t)
	var r Receiver
	p := make([]byte, 8)
	if n, err := r.Receive(one, p); n != 0 || err != unix.EAGAIN || Peek(one) != unix.EAGAIN {
		t.Errorf("%d, %v of an empty socket", n, err)
	}
	if n, err := Send(other, []byte("bytes")); n != 5 || err != 0 {
		t.Errorf("sent %d, %v", n, err)
	}
	if err := Peek(one); err != 0 {
		t.Error(err)
	}
	before := clock.Now()
	if n, err := r.Receive(one, p); err != 0 || string(p[:n]) != "bytes" {
		t.Errorf("%q, %v", p[:n], err)
	}
	if at, seen, stamped := r.Times(); stamped || at != seen || at < before {
		t.Errorf("%v, %v, %v without a stamp", at, seen, stamped)
	}
	for room := true; room; {
		_, err := Send(other, make([]byte, 64<<10))
		room = err == 0
		if !room && err != unix.EAGAIN {
			t.Error(err)
		}
	}
	if err := unix.Shutdown(one, unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Receive(other, p); n != 0 || err != 0 {
		t.Errorf("%d, %v behind the end", n, err)
	}
}

// Only a whole timestamp counts as the kernel's.
func TestTimesOfAStamp(t *testing.T) {
	MapStamps()
	for _, c := range []struct {
		length      int
		level, kind int32
		want        bool
	}{
		{32, unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, true}, {0, unix.SOL_SOCKET, unix.SCM_TIMESTAMPNS, false},
		{32, unix.SOL_SOCKET, unix.SCM_RIGHTS, false}, {32, unix.SOL_IP, unix.SCM_TIMESTAMPNS, false},
	} {
		var r Receiver
		before := clock.Now()
		r.control.time = unix.NsecToTimespec(time.Now().UnixNano())
		r.control.head.Level, r.control.head.Type = c.level, c.kind
		r.message.SetControllen(c.length)
		if at, seen, stamped := r.Times(); stamped != c.want || at < before.Add(-time.Millisecond) || at > seen {
			t.Errorf("%+v: %d, %d, %v", c, at, seen, stamped)
		}
	}
}

// A timer can be read once, from its instant on.
func TestTimer(t *testing.T) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	at := clock.Now().Add(2_000_000)
	if err := SetTimer(fd, at); err != nil {
		t.Fatal(err)
	}
	for !ReadTimer(fd) {
	}
	if now := clock.Now(); now < at.Add(-1000) {
		t.Errorf("%v early", at.Sub(now))
	}
	if ReadTimer(fd) {
		t.Error("read twice")
	}
	if SetTimer(-1, at) == nil {
		t.Error("no timer was set")
	}
}
