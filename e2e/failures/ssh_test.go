package failures

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// sshServer is OpenSSH's server on loopback, for the user of this test, and a client that knows it as any host.
type sshServer struct {
	dir    string
	server *process.Process
}

func startSSH(t *testing.T) *sshServer {
	t.Helper()
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatal("needs OpenSSH's server and client (Debian: openssh-server openssh-client)")
	}
	dir := t.TempDir()
	for _, key := range []string{"host", "user"} {
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	_ = os.MkdirAll("/run/sshd", 0o755) // sshd wants it if it runs as root
	address := process.FreeAddress(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("sshd_config", fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\n"+
		"StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nSetEnv XDG_CACHE_HOME=%[2]s\n", port, dir), 0o600)
	write("config", fmt.Sprintf("Host *\nHostName 127.0.0.1\nPort %s\nIdentityFile %[2]s/user\nStrictHostKeyChecking no\n"+
		"UserKnownHostsFile %[2]s/known\nLogLevel ERROR\n", port, dir), 0o600)
	write("ssh", fmt.Sprintf("#!/bin/sh\nexec /usr/bin/ssh -F %s/config \"$@\"\n", dir), 0o700)
	s := &sshServer{dir: dir, server: process.Start(t, program, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))}
	s.server.Await("Server listening")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return s
}

// sessions returns the processes that hold the server's connections.
func (s *sshServer) sessions(t *testing.T) (pids []int) {
	out, err := exec.CommandContext(t.Context(), "pgrep", "-P", strconv.Itoa(s.server.PID())).Output()
	if err != nil {
		return nil // none
	}
	for text := range strings.FieldsSeq(string(out)) {
		pid, _ := strconv.Atoi(text)
		pids = append(pids, pid)
	}
	return pids
}

// breakAll ends all connections to the server.
func (s *sshServer) breakAll(t *testing.T) {
	t.Helper()
	pids := s.sessions(t)
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if len(pids) < 2 {
		t.Errorf("%d connections", len(pids))
	}
}

// left returns what agents have left in the cache, but for the program and datasets.
func (s *sshServer) left(t *testing.T) (names []string) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "spate"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "datasets" && !strings.HasPrefix(e.Name(), "spate-") {
			names = append(names, e.Name())
		}
	}
	return names
}

const sshRun = "--concurrency 4 --isl 20 --osl 20 --duration 12s --on eu=a,b --model simulated"

// TestConnectionsThatBreak: all connections of SSH break while agents send. They come back through others, and nothing
// is missing. When the run has ended, so have the agents, and no socket is left.
func TestConnectionsThatBreak(t *testing.T) {
	s := startSSH(t)
	url := programs.Simulate(t, 1).URLs[0]
	p := process.Start(t, programs.Built.Spate, append([]string{"run", "--target", url, "--out", "out"}, strings.Fields(sshRun)...)...)
	p.Await(`in flight .* done`)
	s.breakAll(t)
	p.MustExit(0)
	if said := p.Printed(); strings.Count(said, "trying again") < 2 || strings.Contains(said, "PARTIAL") {
		t.Errorf("it said\n%s", said)
	}
	process.Eventually(t, "the agents end", func() bool { return len(s.left(t)) == 0 })
}

// TestTheLaptopIsGone: the command is killed, after its connections were made again. Its agents send until their lease
// is over, and then end by themselves.
func TestTheLaptopIsGone(t *testing.T) {
	s := startSSH(t)
	url := programs.Simulate(t, 1).URLs[0]
	p := process.Start(t, programs.Built.Spate, append([]string{"run", "--target", url, "--out", "out"}, strings.Fields(sshRun)...)...)
	p.Await(`in flight .* done`)
	s.breakAll(t)
	process.Eventually(t, "two connections are made again", func() bool {
		return len(s.left(t)) == 2 && len(s.sessions(t)) == 2 && strings.Count(p.Printed(), "trying again") == 2
	})
	p.Kill()
	process.Eventually(t, "the agents end", func() bool { return len(s.left(t)) == 0 && len(s.sessions(t)) == 0 })
}
