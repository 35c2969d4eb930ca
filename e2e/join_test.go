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

// A newcomer's way: the coordinator prints a line for agents and one for people; no other command needs a certificate,
// key, or flag. A revoked agent is out at once, and comes back by a new invitation only. What has joined needs none
// after a restart.
func TestJoinByOneLine(t *testing.T) {
	t.Parallel()
	c := startOwn(t, "--no-gossip")
	line := c.Await("(Agents join, for 24 hours, by: .*)")[1]
	firstDir, secondDir, person := t.TempDir(), t.TempDir(), t.TempDir()
	first := agent(t, firstDir, line, "--name", "gpu-1")
	second := agent(t, secondDir, line)
	first.Await("msg=connected")
	name := second.Await(`msg=connected agent=(\S+)`)[1]

	spate := func(words ...string) *process.Process {
		t.Helper()
		return process.StartIn(t, person, programs.Built.Spate, words...)
	}
	login := spate("login", "--name", "anna", invited.FindStringSubmatch(c.Await("(People log in by: .*)")[1])[1])
	login.MustExit(0)
	login.Await("You are anna at the coordinator")
	plan := programs.PlanIn(t, tlsPlan, nil)
	run := spate("run", plan, "--out", "run", "--min-agents", "2")
	run.MustExit(0)
	if r := programs.Result(t, filepath.Join(person, "run")); !r.Run.Complete || len(r.Run.Agents) != 2 {
		t.Errorf("%+v", r.Run)
	}
	runs := spate("runs")
	runs.MustExit(0)
	runs.Await("anna")
	here := spate("run", plan, "--out", "here", "--agents", "1")
	here.MustExit(0)

	if said := c.certs("revoke", "gpu-1"); !strings.Contains(said, "agent gpu-1") {
		t.Errorf("revoke says %q", said)
	}
	first.Await("certificate of agent gpu-1 was revoked at .*it can join again only by a new invitation")
	first.Kill()
	first = agent(t, firstDir, line, "--name", "gpu-1")
	first.MustExit(2)
	first.Await("agent gpu-1 was revoked")

	second.Kill()
	c.Kill()
	c.start()
	second = agent(t, secondDir, line) // this invitation has ended
	if again := second.Await(`msg=connected agent=(\S+)`)[1]; again != name {
		t.Errorf("%s is %s after a restart", name, again)
	}
	late := agent(t, t.TempDir(), line)
	late.MustExit(2)
	late.Await("the invitation was made before agent/gpu-1 was revoked")
	agent(t, firstDir, c.certs("invite", "agent"), "--name", "gpu-1").Await("msg=connected")
	taken := agent(t, t.TempDir(), c.certs("invite", "agent"), "--name", "gpu-1")
	taken.MustExit(2)
	taken.Await("the name gpu-1 was taken by the agent of another machine")
	agents := spate("agents")
	agents.MustExit(0)
	agents.Await("gpu-1 .*ready")
}

// Certificates renew themselves, and an agent that asks for gossip gets the cluster's key. A token may be in a file.
func TestJoinedStay(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(process.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	c := startOwn(t, "--joined-validity", "12s", "--gossip-listen", "0.0.0.0:"+port, "--gossip-advertise", "127.0.0.1")
	line := c.Await("(Agents join, for 24 hours, by: .*)")[1]
	dir := t.TempDir()
	token := regexp.MustCompile(`token=([^&]+)`).FindStringSubmatch(line)[1]
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := agent(t, dir, strings.Replace(line, token, "file:token", 1), "--gossip-listen", "127.0.0.1:0")
	a.Await("gossip is ready")
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
		"for people":                 {c.certs("invite", "client"), "the invitation is for the role client: agents take one by", nil},
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
