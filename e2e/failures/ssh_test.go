package failures

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
func (s *sshServer) sessions() []int { return children(s.server.PID()) }

// children returns the processes that a process has started.
func children(pid int) (pids []int) {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil // none
	}
	for text := range strings.FieldsSeq(string(out)) {
		child, _ := strconv.Atoi(text)
		pids = append(pids, child)
	}
	return pids
}

// breakAll ends all connections to the server.
func (s *sshServer) breakAll(t *testing.T) {
	t.Helper()
	pids := s.sessions()
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if len(pids) < 2 {
		t.Errorf("%d connections", len(pids))
	}
}

// onlyProgram matches what a host may keep: the program, and datasets.
var onlyProgram = regexp.MustCompile(`^(spate-[0-9a-f]{16}|datasets)$`)

// left returns what agents have left in the cache, but for the program and datasets.
func (s *sshServer) left(t *testing.T) (names []string) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "spate"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !onlyProgram.MatchString(e.Name()) {
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
		return len(s.left(t)) == 2 && len(s.sessions()) == 2 && strings.Count(p.Printed(), "trying again") == 2
	})
	p.Kill()
	process.Eventually(t, "the agents end", func() bool { return len(s.left(t)) == 0 && len(s.sessions()) == 0 })
}

// elsewhere is a plan whose server runs on another host. Its words and environment mean something to shells.
const elsewhere = `
name: elsewhere
targets:
  - name: sim
    model: m
    endpoints: [http://ADDRESS]
    server:
      on: host
      start: [sh, -c, 'echo "$X" >>MARK.starts; SPATE simulate --model m --listen 127.0.0.1:{port} # $1', MARK, "it''s"]
      env: {X: "a 'b' $c"}
      reset: [sh, -c, 'echo "$X" >>MARK.resets']
workloads: [{random: {isl: 10, osl: 10}}]
loads: [{concurrency: [1, 4], requests: 20}]
`

// A server on another host is started, reset and ended there, also when the command that started it is killed.
func TestServerOnAnotherHost(t *testing.T) {
	s := startSSH(t)
	mark := filepath.Join(t.TempDir(), "mark")
	plan := strings.NewReplacer("ADDRESS", process.FreeAddress(t), "SPATE", programs.Built.Spate, "MARK", mark).Replace(elsewhere)
	r := programs.RunPlan(t, plan, "--allow-commands")
	r.MustExit(0)
	for _, log := range []string{mark + ".starts", mark + ".resets"} {
		if text, err := os.ReadFile(log); string(text) != "a 'b' $c\n" {
			t.Errorf("%s: %q, %v\n%s", log, text, err, r.Printed())
		}
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("servers are left: %q", left)
	}
	f := folder{t, t.TempDir()}
	if err := os.WriteFile(filepath.Join(f.dir, "plan.yaml"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	p := f.spate("run", "plan.yaml", "--allow-commands")
	p.Await(`sim is ready`)
	p.Signal(syscall.SIGKILL)
	p.Exit()
	process.Eventually(t, "the server and its connections have ended", func() bool {
		return len(marked(mark)) == 0 && len(s.sessions()) == 0
	})
}
