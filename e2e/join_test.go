package e2e

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// ofItsOwn is a coordinator that is reached from other machines and has an authority of its own.
type ofItsOwn struct {
	*process.Process
	t      *testing.T
	data   string
	listen []string
}

// startOwn starts the coordinator. Other machines would reach it at another address than programs here.
func startOwn(t *testing.T, flags ...string) *ofItsOwn {
	t.Helper()
	address := process.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	c := &ofItsOwn{t: t, data: filepath.Join(t.TempDir(), "runs")}
	c.listen = append([]string{"--listen", "0.0.0.0:" + port, "--advertise", address, "--data-dir", c.data}, flags...)
	c.start()
	return c
}

func (c *ofItsOwn) start() {
	c.t.Helper()
	c.Process = process.Start(c.t, programs.Built.Coordinator, c.listen...)
	c.Await("coordinator serves")
}

// certs runs `spate certs` on the coordinator's machine and returns what it prints.
func (c *ofItsOwn) certs(words ...string) string {
	c.t.Helper()
	p := process.Start(c.t, programs.Built.Spate, append(append([]string{"certs"}, words...), "--dir",
		filepath.Join(c.data, "certs"))...)
	p.MustExit(0)
	return p.Stdout.String()
}

var invited = regexp.MustCompile(`'(spate://[^']+)'`)

// agent starts an agent in a folder by a line that has an invitation.
func agent(t *testing.T, dir, line string, flags ...string) *process.Process {
	t.Helper()
	return process.StartIn(t, dir, programs.Built.Agent, append([]string{"--join", invited.FindStringSubmatch(line)[1]},
		flags...)...)
}

// A newcomer's way: the coordinator prints a line for agents, who need no certificate, key, or other flag. After a
// restart they do not need the line either. A token may be in a file.
func TestJoinByOneLine(t *testing.T) {
	t.Parallel()
	c := startOwn(t, "--no-gossip")
	line := c.Await("(Agents join, for 24 hours, by: .*)")[1]
	firstDir, secondDir := t.TempDir(), t.TempDir()
	agent(t, firstDir, line, "--name", "gpu-1").Await("msg=connected")
	second := agent(t, secondDir, line)
	name := second.Await(`msg=connected agent=(\S+)`)[1]

	person := strings.Fields(c.certs("client", "anna"))
	_, port, _ := net.SplitHostPort(c.listen[1])
	person = append(person, "--coordinator", "127.0.0.1:"+port)
	run := programs.RunPlan(t, tlsPlan, append(person, "--min-agents", "2")...)
	run.MustExit(0)
	if r := run.Results(); !r.Run.Complete || len(r.Run.Agents) != 2 {
		t.Errorf("%+v", r.Run)
	}

	second.Kill()
	c.Kill()
	c.start()
	token := regexp.MustCompile(`token=[^&]+`)
	if err := os.WriteFile(filepath.Join(secondDir, "token"), []byte("ended\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second = agent(t, secondDir, token.ReplaceAllString(line, "token=file:token"))
	if again := second.Await(`msg=connected agent=(\S+)`)[1]; again != name {
		t.Errorf("%s is %s after a restart", name, again)
	}
	taken := agent(t, t.TempDir(), c.certs("invite", "agent"), "--name", "gpu-1")
	taken.MustExit(2)
	taken.Await("the name gpu-1 was taken by the agent of another machine")
	agent(t, t.TempDir(), c.certs("invite", "agent", "gpu-2")).Await("certificate=gpu-2")
}

// Certificates renew themselves.
func TestJoinedStay(t *testing.T) {
	t.Parallel()
	c := startOwn(t, "--no-gossip", "--joined-validity", "30s")
	a := agent(t, t.TempDir(), c.Await("(Agents join, for 24 hours, by: .*)")[1])
	a.Await("msg=connected")
	a.Await("the certificate is renewed")
}

// What is wrong is said at once, with what to do.
func TestJoiningInVain(t *testing.T) {
	t.Parallel()
	c, other, tls := startOwn(t, "--no-gossip"), startOwn(t, "--no-gossip"), programs.StartLasting(t, programs.MakeCerts(t))
	line := c.certs("invite", "agent")
	address := regexp.MustCompile(`spate://([^?]+)`)
	at := func(elsewhere string) string { return address.ReplaceAllString(line, "spate://"+elsewhere) }
	sealed := t.TempDir()
	if err := os.WriteFile(filepath.Join(sealed, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		line, says string
		flags      []string
	}{
		"another coordinator": {at(address.FindStringSubmatch(other.certs("invite", "agent"))[1]),
			"not that of the invitation: its owner made a new one, or somebody stands between", nil},
		"nothing there":              {at(process.FreeAddress(t)), "refuses connections: nothing listens there", nil},
		"with files as certificates": {at(tls.Address), "not that of the invitation", nil},
		"of another cluster": {regexp.MustCompile(`token=[^&]+`).ReplaceAllString(line,
			regexp.MustCompile(`token=[^&]+`).FindString(other.certs("invite", "agent"))), "or of another cluster", nil},
		"ended":                {c.certs("invite", "agent", "--valid", "1ns"), "the invitation ended at .*ask the coordinator's owner", nil},
		"state that is a file": {line, "not a directory", []string{"--state-dir", filepath.Join(sealed, "state")}},
		"token not in a file":  {regexp.MustCompile(`token=[^&]+`).ReplaceAllString(line, "token=file:none"), "no such file", nil},
		"two":                  {line, "an invitation stands alone", []string{"--join", "127.0.0.1:7946"}},
	} {
		a := agent(t, t.TempDir(), c.line, c.flags...)
		a.MustExit(2)
		if !regexp.MustCompile(c.says).MatchString(a.Stderr.String()) {
			t.Errorf("%s: %s", what, a.Stderr.String())
		}
	}
}
