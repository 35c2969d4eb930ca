package runcmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/membership"
	"github.com/spate-load/spate/internal/reason"
)

// slurmJob is the agents of a job of Slurm, each on a node of its own.
type slurmJob struct {
	nodes   string
	options []string // of srun
	address string   // HOST or HOST:PORT at which nodes reach this machine; empty: its first private one
	agents  string   // what their names begin with
	join    certs.Invitation
}

// slurmTask is one of these agents. The first one starts all.
type slurmTask struct {
	*slurmJob
	number int
}

// addTasks adds the agents of an entry with slurm.
func (l *hostList) addTasks(e hostEntry) error {
	at, given, err := options(e.Slurm.Value, "partition", "region", "address", "account", "constraint", "cpus-per-task", "mem",
		"qos", "time")
	nodes, wrong := strconv.Atoi(at)
	job := &slurmJob{nodes: at, address: given.Get("address"), agents: l.name("slurm/" + given.Get("partition"))}
	e.Region = cmp.Or(e.Region, given.Get("region"))
	for name := range given {
		if name != "region" && name != "address" {
			job.options = append(job.options, "--"+name+"="+given.Get(name))
		}
	}
	for i := range nodes {
		l.addHost(e, fmt.Sprintf("%s-%d", job.agents, i), "slurm:"+at, slurmTask{job, i})
	}
	return cmp.Or(err, reason.If(strings.ContainsAny(e.Region, forShells), "region=%s is not the name of a region", e.Region),
		reason.If(wrong != nil || nodes < 1 || nodes > 1000, "%q is not a number of nodes from 1 to 1000: want slurm:NODES?partition=NAME", at),
		reason.If(strings.ContainsAny(job.address, forShells+"/@"), "address=%s: want HOST or HOST:PORT", job.address))
}

// prepare makes the way of all agents to the coordinator.
func (t slurmTask) prepare(_ context.Context, r *remoteHosts, h *remoteHost) (err error) {
	h.program = "shared"
	if t.number == 0 {
		t.join, err = r.invite(t.address)
	}
	return err
}

// joinToken is where tasks find the token of their invitation. Any user of a node can read arguments.
const joinToken = "SPATE_JOIN_TOKEN"

// srun returns the command that runs all agents. A coordinator lets some 50 of them join in a second. Nodes may share a
// home, whose configuration is a person's. Slurm kills what has not ended 30 s after SIGTERM.
func (t slurmTask) srun(ctx context.Context, r *remoteHosts, h *remoteHost) *exec.Cmd {
	program, _ := os.Executable() // nodes say if they do not have it
	join := t.join
	join.Token = "env:" + joinToken
	script := `test -x "$0" || { echo "$0 is not on node $SLURMD_NODENAME: run spate from a directory that nodes share, ` +
		`such as your home" >&2; exit 127; }; trap : TERM; d=$(mktemp -d) || exit; sleep $((SLURM_PROCID / 50)); "$0" "` +
		strings.Join(r.arguments(h, "--join="+join.String(), t.agents+"-$SLURM_PROCID", remoteAlone), `" "`) +
		`" --state-dir="$d" --config=/dev/null --leave-timeout=20s; e=$?; rm -rf "$d"; exit $e`
	cmd := detached(ctx, slices.Concat([]string{"srun", "--job-name=spate-" + r.id, "--nodes=" + t.nodes, "--ntasks=" + t.nodes,
		"--ntasks-per-node=1", "--cpus-per-task=4", "--immediate=20", "--kill-on-bad-exit=0", "--wait=0", "--no-kill",
		"--export=HOME,PATH,XDG_CACHE_HOME," + joinToken}, t.options, []string{"sh", "-c", script, program})...)
	cmd.Env = append(os.Environ(), joinToken+"="+t.join.Token)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}

// open starts srun, which passes the line that ends agents to all of them, and waits for its end.
func (t slurmTask) open(ctx context.Context, r *remoteHosts, h *remoteHost, _ bool) (said string, ended bool) {
	if t.number > 0 {
		<-r.wanted.Done()
		return "", true
	}
	cmd := t.srun(ctx, r, h)
	problems := &bytes.Buffer{}
	cmd.Stderr = problems
	stdin, err := cmd.StdinPipe()
	if err = cmp.Or(err, cmd.Start()); err != nil {
		return fmt.Sprintf("%v: run spate where people start jobs of Slurm", err), true
	}
	defer context.AfterFunc(r.wanted, func() {
		if _, _ = io.WriteString(stdin, "end\n"); !r.up.Load() {
			_ = cmd.Cancel() // it may wait for nodes
		}
	})()
	if err = cmd.Wait(); !cmd.ProcessState.Exited() { // it was killed: its job waits, or holds its nodes
		_ = detached(context.Background(), "scancel", "--quiet", "--name=spate-"+r.id).Run()
	}
	return cmp.Or(whyOf(problems.String()), fmt.Sprintf("srun: %v", err)), true
}

// whyOf returns, of what was said, the last line of a task, or the first error of srun: others follow from it.
func whyOf(said string) (why string) {
	for line := range strings.Lines(said) {
		text := strings.TrimSpace(line)
		if !strings.HasPrefix(text, "srun: ") || why == "" && strings.HasPrefix(text, "srun: error: ") {
			why = text
		}
	}
	return why
}

// close does nothing: agents have removed what they left.
func (t slurmTask) close(*remoteHosts) {}

// invite lets agents of other machines reach the coordinator at an address, HOST or HOST:PORT, by an authority of this
// run, and returns their invitation.
func (r *remoteHosts) invite(address string) (none certs.Invitation, _ error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, "0"
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "tcp", ":"+port)
	if err != nil {
		return none, err
	}
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	if host == "" {
		at, wrong := membership.Config{Bind: "0.0.0.0:" + port}.Advertised()
		host, err = at.Addr().String(), reason.If(wrong != nil, "give address=HOST at which nodes reach this machine: %w", wrong)
	}
	a, wrong := certs.OpenOwn(filepath.Join(r.dir, "certs-"+port), net.JoinHostPort(host, port), time.Now())
	if err = cmp.Or(err, wrong); err != nil {
		return none, errors.Join(err, listener.Close())
	}
	err = r.serve(listener, a)
	join, wrong := a.Invite(certs.Agent, "", certs.Validity, time.Now())
	return join, cmp.Or(err, wrong)
}
