package runcmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/engine"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/plans/naming"
)

// Times of agents that are started by ssh. An agent that has lost its run ends by itself.
const (
	remoteAlone    = "10s"
	remotePause    = 300 * time.Millisecond
	remoteCheck    = 50 * time.Millisecond
	remoteStart    = 30 * time.Second // until an agent must have reached the coordinator
	remotePatience = time.Minute      // with a connection that does not come back
	remoteSteady   = 30 * time.Second // a connection that lasts so long has come back
	remoteFarewell = 10 * time.Second
)

// sshFailed is the exit code of ssh if its connection broke. Others are the agent's.
const sshFailed = 255

// remoteHost is a machine that an agent of a run is started on.
type remoteHost struct {
	name, region, login string

	platform, cores, files, dir, program string // as the host says
	copied                               bool
	input                                io.WriteCloser // of the agent
}

// remoteHosts are the machines of --on.
type remoteHosts struct {
	hosts  []*remoteHost
	labels []string // of all: those that the plan asks for
	logs   io.Writer
	dir    string // of the coordinator's socket here
	id     string // of the sockets there

	up     atomic.Bool     // all agents have reached the coordinator
	failed chan error      // of agents that ended before that
	wanted context.Context // ends when the agents shall end, by end
	end    context.CancelFunc
	agents sync.WaitGroup
	giveUp context.CancelFunc // ends ssh
}

// parseHosts reads the values of --on: "user@host", several with commas between them, after "region=" if they have one.
func parseHosts(values []string) ([]*remoteHost, error) {
	var all []*remoteHost
	seen := map[string]int{}
	for _, value := range values {
		region, list, given := strings.Cut(value, "=")
		if !given {
			region, list = "", value
		}
		if err := naming.CheckRegion(region); err != nil || strings.ContainsAny(region, forShells) || strings.HasPrefix(region, "-") {
			return nil, fmt.Errorf("--on %s: %q is not the name of a region", value, region)
		}
		for login := range strings.SplitSeq(list, ",") {
			login = strings.TrimSpace(login)
			name := login[strings.LastIndexByte(login, '@')+1:]
			if name == "" || strings.HasPrefix(login, "-") || strings.ContainsAny(login, forShells) {
				return nil, fmt.Errorf("--on %s: %q is not a host: want [REGION=][USER@]HOST, several with commas between them",
					value, login)
			}
			name = cmp.Or(strings.Trim(unusableInName.Replace(name), "-_"), "host")
			if seen[name]++; seen[name] > 1 {
				name = fmt.Sprintf("%s-%d", name, seen[name])
			}
			all = append(all, &remoteHost{name: name, region: region, login: login})
		}
	}
	return all, nil
}

// forShells mean something to shells.
const forShells = " \t\n'\"\\$;&|`<>(){}*?~#!"

// unusableInName replaces what addresses have and names of agents may not.
var unusableInName = strings.NewReplacer(".", "-", ":", "-", "[", "", "]", "", "%", "-")

// byRegion returns how many agents each region has.
func byRegion(hosts []*remoteHost) (all embedded) {
	for _, h := range hosts {
		all = all.with(h.region)
	}
	return all
}

// newRemoteHosts returns hosts and a listener for their agents: a socket that no other user of this machine can open.
func newRemoteHosts(hosts []*remoteHost, logs io.Writer) (*remoteHosts, net.Listener, error) {
	dir, err := os.MkdirTemp("", "spate-on-") // only for this user
	if err != nil {
		return nil, nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "unix", filepath.Join(dir, "coordinator"))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	var id [4]byte
	rand.Read(id[:]) // never fails, by its contract
	wanted, end := context.WithCancel(context.Background())
	return &remoteHosts{hosts: hosts, logs: logs, dir: dir, id: hex.EncodeToString(id[:]),
		failed: make(chan error, len(hosts)), wanted: wanted, end: end, giveUp: func() {}}, listener, nil
}

// start makes the hosts ready, shows them, and starts their agents. It blocks until there are as many agents as hosts.
func (r *remoteHosts) start(ctx context.Context, version string, agents func(context.Context) (int, error)) error {
	program, hash, err := ownProgram()
	if err != nil {
		return err
	}
	group, probing := errgroup.WithContext(ctx)
	for _, h := range r.hosts {
		group.Go(func() error { return r.prepare(probing, h, version, hash, program) })
	}
	if err := group.Wait(); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil {
		return command.BadInput(err)
	}
	fmt.Fprintln(r.logs, strings.Join(r.table().Lines(0), "\n"))
	running, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	r.giveUp = giveUp
	for _, h := range r.hosts {
		if err := r.startAgent(running, h); err != nil {
			return err
		}
	}
	return r.await(ctx, agents)
}

// ownProgram returns this program, and its hash.
func ownProgram() (program []byte, hash string, err error) {
	path, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	program, err = os.ReadFile(path)
	sum := sha256.Sum256(program)
	return program, hex.EncodeToString(sum[:8]), err
}

// await blocks until there are as many agents as hosts. An agent that ends before that ends the command.
func (r *remoteHosts) await(ctx context.Context, agents func(context.Context) (int, error)) error {
	tick, late := time.NewTicker(remoteCheck), time.After(remoteStart)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-r.failed:
			return command.BadInput(err)
		case <-late:
			return fmt.Errorf("--on: not all agents have reached this machine within %v", remoteStart)
		case <-tick.C:
			if n, err := agents(ctx); err == nil && n >= len(r.hosts) {
				r.up.Store(true)
				return nil
			}
		}
	}
}

// table shows what the hosts are.
func (r *remoteHosts) table() *table.Table {
	t := table.New(table.Words("AGENT", "REGION", "HOST", "SYSTEM"), table.Numbers("CORES", "OPEN FILES"), table.Words("PROGRAM"))
	for _, h := range r.hosts {
		program := "is there"
		if h.copied {
			program = "copied"
		}
		t.Add(h.name, h.region, h.login, h.platform, h.cores, h.files, program)
	}
	return t
}

// ssh returns an ssh to a host that asks nothing and has no terminal. options are its own.
func ssh(login string, options ...string) []string {
	return slices.Concat([]string{"ssh", "-T", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}, options, []string{"--", login})
}

// plainWord matches what means nothing to shells.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9/:.,_-]+$`)

// quoted returns a command's words for the shell of a host.
func quoted(argv ...string) (out []string) {
	for _, word := range argv {
		if !plainWord.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		out = append(out, word)
	}
	return out
}

// command returns an ssh with a script for sh, without single quotes. The caller's interrupt does not reach it: a run
// that is stopped still needs its agents.
func (r *remoteHosts) command(ctx context.Context, h *remoteHost, script string, options ...string) *exec.Cmd {
	args := append(ssh(h.login, options...), "sh -c '"+script+"'")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	engine.Alone(cmd)
	cmd.WaitDelay = time.Second
	return cmd
}

// ask runs a script on a host and returns what it printed.
func (r *remoteHosts) ask(ctx context.Context, h *remoteHost, stdin io.Reader, script string) (string, error) {
	cmd := r.command(ctx, h, script, "-C")
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &problems
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("--on needs the program ssh, which is not in PATH")
		}
		return "", fmt.Errorf("--on %s: %s", h.login, cmp.Or(lastLine(problems.String()), lastLine(out.String()), err.Error()))
	}
	return out.String(), nil
}

// lastLine returns the last line of a text that has any words.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// prepare finds out what a host is, and copies the program to it unless it is there.
func (r *remoteHosts) prepare(ctx context.Context, h *remoteHost, version, hash string, program []byte) error {
	out, err := r.ask(ctx, h, nil, `d="${XDG_CACHE_HOME:-$HOME/.cache}/spate"; umask 077; mkdir -p "$d" || exit 1; echo `+r.id+`; `+
		`uname -sm; getconf _NPROCESSORS_ONLN; ulimit -n; echo "$d"; spate --version 2>/dev/null || echo none; `+
		`if "$d/spate-`+hash+`" --version >/dev/null 2>&1; then echo there; else echo missing; fi`)
	if err != nil {
		return err
	}
	_, said, _ := strings.Cut("\n"+out, "\n"+r.id+"\n") // a login script may have printed something
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if len(lines) != 6 {
		return fmt.Errorf("--on %s: the host does not answer as a Unix system: %q", h.login, out)
	}
	h.platform, h.cores, h.files, h.dir = lines[0], lines[1], lines[2], lines[3]
	h.program = h.dir + "/spate-" + hash
	switch {
	case strings.ContainsAny(h.dir, forShells):
		return fmt.Errorf("--on %s: %q cannot be the directory of the program: set XDG_CACHE_HOME there", h.login, h.dir)
	case platforms[h.platform] != runtime.GOOS+"/"+runtime.GOARCH && strings.HasSuffix(lines[4], " "+version):
		h.program = "spate"
	case platforms[h.platform] != runtime.GOOS+"/"+runtime.GOARCH:
		return fmt.Errorf("--on %s: the host is %s and this program is for %s/%s: install spate %s there, in PATH",
			h.login, h.platform, runtime.GOOS, runtime.GOARCH, version)
	case lines[5] == "missing":
		fmt.Fprintf(r.logs, "Copying the program to %s: %d MB\n", h.login, len(program)>>20)
		// A connection that breaks ends the program too early, and looks like its end.
		_, err = r.ask(ctx, h, bytes.NewReader(program), `f="`+h.program+`"; t="$f.`+r.id+"-"+h.name+
			`"; cat >"$t" && test $(wc -c <"$t") -eq `+strconv.Itoa(len(program))+` && chmod 700 "$t" && mv "$t" "$f" && `+
			`"$f" --version >/dev/null || { rm -f "$t"; exit 1; }`)
		h.copied = true
	}
	return err
}

// platforms are Go's names of what uname prints.
var platforms = map[string]string{
	"Linux x86_64": "linux/amd64", "Linux aarch64": "linux/arm64", "Darwin x86_64": "darwin/amd64", "Darwin arm64": "darwin/arm64",
}

// socket is where the agent of a host reaches the coordinator: a file that only its user can open.
func (r *remoteHosts) socket(h *remoteHost) string { return h.dir + "/" + r.id + "-" + h.name }

// forward is ssh's option for the way from a host's socket to the one here.
func (r *remoteHosts) forward(h *remoteHost) []string {
	return []string{"-o", "ExitOnForwardFailure=yes", "-R", r.socket(h) + ":" + filepath.Join(r.dir, "coordinator")}
}

// startAgent starts the agent of a host and keeps its way to the coordinator open.
func (r *remoteHosts) startAgent(ctx context.Context, h *remoteHost) error {
	labels := ""
	for _, label := range r.labels {
		labels += " --label " + label // no shell means anything by its characters
	}
	cmd := r.command(ctx, h, `s="`+r.socket(h)+`"; "`+h.program+`" agent --log-level warn --coordinator "unix:$s" --name `+
		h.name+` --region "`+h.region+`"`+labels+` --until-alone `+remoteAlone+`; e=$?; rm -f "$s"; exit $e`, r.forward(h)...)
	var err error
	if h.input, err = cmd.StdinPipe(); err != nil {
		return err
	}
	problems := &bytes.Buffer{}
	cmd.Stderr = problems
	if err := cmd.Start(); err != nil {
		return err
	}
	r.agents.Go(func() { r.keep(h, cmd.Wait(), problems) })
	return nil
}

// keep opens the way of an agent again each time that it breaks, as err and what ssh said tell, until the agents shall
// end.
func (r *remoteHosts) keep(h *remoteHost, err error, problems *bytes.Buffer) {
	before := ""
	for good := time.Now(); r.wanted.Err() == nil; {
		said := cmp.Or(lastLine(problems.String()), fmt.Sprint(err))
		exit, ran := errors.AsType[*exec.ExitError](err)
		switch {
		case !r.up.Load():
			r.failed <- fmt.Errorf("--on %s: the agent has ended: %s", h.login, said)
			return
		case !ran || exit.Exited() && exit.ExitCode() != sshFailed || time.Since(good) > remotePatience:
			fmt.Fprintf(r.logs, "The agent on %s has ended: %s\n", h.login, said)
			return
		case said != before:
			fmt.Fprintf(r.logs, "The connection to %s broke (%s): trying again\n", h.login, said)
		}
		problems.Reset()
		before = said
		began := time.Now()
		if err = r.reopen(r.wanted, h, problems); time.Since(began) > remoteSteady {
			before, good = "", time.Now()
		}
	}
}

// reopen makes the way again from an agent that has lost it, and blocks until it breaks.
func (r *remoteHosts) reopen(ctx context.Context, h *remoteHost, problems *bytes.Buffer) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(remotePause):
	}
	remove := r.command(ctx, h, `rm -f "`+r.socket(h)+`"`)
	remove.Stderr = problems
	if err := remove.Run(); err != nil {
		return err
	}
	again := r.command(ctx, h, "cat >/dev/null", r.forward(h)...) // it ends with this program, whatever ends that
	again.Stderr = problems
	stdin, err := again.StdinPipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	if err := again.Start(); err != nil {
		return err
	}
	return again.Wait()
}

// close ends the agents: a line on their input does it, and those that lost their input end alone. It blocks until they
// have ended, or for 10 seconds.
func (r *remoteHosts) close() {
	r.end()
	_ = os.RemoveAll(r.dir) // connections stay
	for _, h := range r.hosts {
		if h.input != nil {
			_, _ = io.WriteString(h.input, "end\n") // it may have ended
		}
	}
	late := time.AfterFunc(remoteFarewell, r.giveUp)
	r.agents.Wait()
	late.Stop()
	r.giveUp()
}
