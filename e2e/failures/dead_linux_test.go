package failures

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/programs"
)

// An endpoint that does not even refuse connections fails after the connect timeout.
func TestSilentEndpointFailsTheRunAfterTheConnectTimeout(t *testing.T) {
	t.Parallel()
	address := silent(t)
	begin := time.Now()
	r := programs.RunPlan(t, fmt.Sprintf(`
name: silent
targets:
  - {name: mute, endpoints: ["http://%s"], model: m, connect_timeout: 1500ms}
workloads:
  - random: {isl: 10, osl: 2}
loads:
  - concurrency: [1, 2, 4, 8]
    duration: 60s
`, address))
	r.MustExit(2)
	if took := time.Since(begin); took < 1500*time.Millisecond || took > time.Minute {
		t.Errorf("it took %v with a connect timeout of 1.5 s", took)
	}
	mustSayDead(t, r, address, "time")
}

// silent returns an address whose connection queue is full: the kernel drops new connections without an answer.
func silent(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(socket, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 8 {
		connection, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
	t.Fatal("the queue of connections does not fill up")
	return ""
}
