package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/engine"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// served reports whether a target has a server that this command starts.
func served(t *spatev1.Target) bool { return t.GetServer() != nil }

// agree shows the commands that a plan would run, and returns an error unless a person has agreed to them.
func (l *localFlags) agree(cmd *cobra.Command, plan *plans.Plan) error {
	var lines []string
	for _, t := range plan.Targets() {
		for _, argv := range [][]string{t.GetServer().GetStart(), t.GetServer().GetReset_(), t.GetServer().GetStop()} {
			line := fmt.Sprintf("  on %s: %q", cmp.Or(t.GetServer().GetOn(), "this machine"), argv)
			if len(argv) > 0 && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The plan runs commands:\n%s\n", strings.Join(lines, "\n"))
	if !l.Commands {
		return errors.New("nothing was started: if these commands may run, give --allow-commands")
	}
	return nil
}

// withPorts gives each target that has a server and no endpoints a port of this machine. elsewhere: the agents do not
// run here.
func withPorts(plan *plans.Plan, elsewhere bool) (*plans.Plan, error) {
	var found []string
	for i, t := range plan.Targets() {
		if !served(t) || len(t.GetEndpoints()) > 0 {
			continue
		}
		if elsewhere {
			return nil, plans.Mistakes{plan.Mistake(fmt.Sprintf("targets[%d]", i), "has a server and no endpoints, and the agents "+
				"are on other machines: give the endpoints at which they reach the server")}
		}
		listener, err := onFreePort()
		if err != nil {
			return nil, fmt.Errorf("no port is free for the server of target %s: %w", t.GetName(), err)
		}
		defer listener.Close() //nolint:gocritic // when all have one of their own
		found = append(found, fmt.Sprintf("targets[%d].endpoints=http://%s", i, listener.Addr()))
	}
	return plan.With(found...)
}

// onFreePort listens on a port below those that systems give to outgoing connections: one of them could take the port
// before the server, which may need minutes to listen.
func onFreePort() (listener net.Listener, err error) {
	for range 100 {
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.N(20_000))); err == nil {
			break
		}
	}
	return listener, err
}

// servers starts the servers of a run's targets, one at a time, when the run wants them.
type servers struct {
	follower *follower
	targets  map[string]*spatev1.Target
	secrets  map[string]string
	dir      string            // of their logs
	version  string            // of this program
	program  map[string]string // on the hosts of servers, by login
	wanted   chan *spatev1.ServerWanted
	stop     context.CancelFunc
	stopped  chan struct{}

	engine *engine.Engine        // nil: none runs
	now    *spatev1.ServerWanted // what it runs for
	notes  []string              // what it says of its settings
}

// serve starts the servers of a plan until the run that f follows has ended. runDir is the run's directory.
func (f *follower) serve(
	ctx context.Context, plan *plans.Plan, secrets map[string]string, runDir, version string,
) error {
	s := &servers{follower: f, targets: map[string]*spatev1.Target{}, secrets: secrets, dir: filepath.Join(runDir, "servers"),
		version: version, program: map[string]string{},
		wanted: make(chan *spatev1.ServerWanted, 8), stopped: make(chan struct{})}
	for _, t := range plan.Targets() {
		s.targets[t.GetName()] = t
	}
	if !slices.ContainsFunc(plan.Targets(), served) {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("logs of servers: %w", err)
	}
	ctx, s.stop = context.WithCancel(ctx)
	f.servers = s
	go s.work(ctx)
	return nil
}

// end ends the server that runs, with all its processes.
func (s *servers) end() {
	if s != nil {
		s.stop()
		<-s.stopped
	}
}

// work does what the run wants, and tells it what becomes of its servers.
func (s *servers) work(ctx context.Context) {
	defer close(s.stopped)
	defer s.close()
	for {
		var ended <-chan struct{}
		if s.engine != nil {
			ended = s.engine.Ended()
		}
		select {
		case <-ctx.Done():
			return
		case w := <-s.wanted:
			s.report(ctx, w, s.ready(ctx, w))
		case <-ended:
			err := s.failure(errors.New("it ended while it was used"))
			s.close()
			s.report(ctx, s.now, err)
		}
	}
}

// grace is how long a server may take to end after SIGTERM.
const grace = 20 * time.Second

// close ends the server that runs, if one does.
func (s *servers) close() {
	if s.engine == nil {
		return
	}
	t := s.targets[s.now.GetTarget()]
	_ = s.engine.Run(context.Background(), onHost(t, t.GetServer().GetStop())) // what is left ends now
	s.engine.Stop()
	s.engine = nil
}

// report tells the run that a server is ready, or what is wrong with it.
func (s *servers) report(ctx context.Context, w *spatev1.ServerWanted, wrong error) {
	request := &spatev1.ReportServerRequest{RunId: s.follower.id, StageIndex: w.GetStageIndex(), Notes: s.notes}
	if wrong != nil {
		request.Failure = wrong.Error()
	}
	err := s.follower.persist.do(ctx, func(ctx context.Context) error {
		_, err := s.follower.client.ReportServer(ctx, request)
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.follower.warn("the coordinator does not know how the server is: " + err.Error())
	}
}

// ready makes the server of a stage ready: it starts a block's, and resets it before the block's other stages.
func (s *servers) ready(ctx context.Context, w *spatev1.ServerWanted) (err error) {
	before, t := s.now, s.targets[w.GetTarget()]
	if before.GetBlock() != w.GetBlock() {
		s.close()
	}
	s.now = w
	switch {
	case w.GetBlock() == 0:
	case s.engine == nil:
		err = s.start(ctx, t)
	case before.GetStageIndex() != w.GetStageIndex():
		err = s.reset(ctx, t)
	}
	if err != nil {
		err = s.failure(err)
		s.close()
	}
	return err
}

// start starts the server of a target, and waits until it is ready.
func (s *servers) start(ctx context.Context, t *spatev1.Target) (err error) {
	host := addressOf(t)
	if c, err := net.DialTimeout("tcp", host, time.Second); err == nil { //nolint:noctx // a second
		_ = c.Close() // nothing was sent
		return fmt.Errorf("it was not started: something else listens at %s: end it, or give the target another port", host)
	}
	start, began := withPort(t, t.GetServer().GetStart()), time.Now()
	s.inform("starting the server of %s: %q", t.GetName(), start)
	guard, err := s.guard(ctx, t)
	if err != nil {
		return fmt.Errorf("it was not started: %w", err)
	}
	if t.GetServer().GetOn() != "" {
		start = quoted(start...)
	}
	log := filepath.Join(s.dir, strings.NewReplacer("/", "_", ":", "_", " ", "_").Replace(t.GetName())+".log")
	if s.engine, err = engine.Start(guard, start, envOf(t), log); err != nil {
		s.engine = nil
		return fmt.Errorf("it was not started: %w", err)
	}
	client, err := clientOf(t, s.secrets, t.GetConnectTimeout().AsDuration())
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func(e *engine.Engine) {
		select {
		case <-e.Ended():
			cancel(errors.New("it ended before it was ready"))
		case <-ctx.Done():
		}
	}(s.engine)
	if _, err = ready.Await(ctx, client, t, func(string) {}); err == nil {
		s.inform("the server of %s is ready after %s", t.GetName(), words.Span(time.Since(began).Seconds()))
		s.account(ctx, client, t)
	}
	return err
}

// account asks the server that runs what it says of its settings, and shows what contradicts its command.
func (s *servers) account(ctx context.Context, client *stream.Client, t *spatev1.Target) {
	var answers [][]byte
	for _, path := range []string{"/metrics", "/get_server_info", "/props"} { // of vLLM and SGLang, SGLang, llama.cpp
		if answer, err := client.Ask(ctx, path, nil); err == nil {
			answers = append(answers, answer)
		}
	}
	s.notes = s.engine.Settings(t.GetServer().GetStart(), answers...)
	for _, note := range s.notes[min(1, len(s.notes)):] {
		s.inform("%s: %s", t.GetName(), note)
	}
}

// guard returns what starts the guard of a target's server: here, or by ssh on its host, to which the program is copied
// first.
func (s *servers) guard(ctx context.Context, t *spatev1.Target) ([]string, error) {
	on := t.GetServer().GetOn()
	if on == "" {
		program, err := os.Executable()
		return engine.Guarded(program, grace), err
	}
	if s.program[on] == "" {
		host, hosts := &sshHost{login: on}, &remoteHosts{version: s.version, logs: io.Discard, id: newID()}
		if err := host.prepare(ctx, hosts, &remoteHost{name: "server", login: on}); err != nil {
			return nil, fmt.Errorf("on %s: %w", on, err)
		}
		s.program[on] = host.program
	}
	return onHost(t, engine.Guarded(s.program[on], grace)), nil
}

// envOf returns the environment of a server's commands, NAME=VALUE.
func envOf(t *spatev1.Target) (env []string) {
	for name, value := range t.GetServer().GetEnv() {
		env = append(env, name+"="+value)
	}
	return env
}

// onHost returns a command of a target's server as this machine runs it: by ssh, if the server is on another one.
func onHost(t *spatev1.Target, argv []string) []string {
	on := t.GetServer().GetOn()
	if argv = withPort(t, argv); on == "" || len(argv) == 0 {
		return argv
	}
	return slices.Concat(ssh(on), []string{"env"}, quoted(envOf(t)...), quoted(argv...))
}

// reset makes the server forget what it has cached.
func (s *servers) reset(ctx context.Context, t *spatev1.Target) error {
	path := t.GetServer().GetResetPost()
	if path == "" {
		return s.engine.Run(ctx, onHost(t, t.GetServer().GetReset_()))
	}
	client, err := clientOf(t, s.secrets, t.GetConnectTimeout().AsDuration())
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Ask(ctx, path, []byte("{}"))
	return err
}

// addressOf returns where a target's server serves: at its first endpoint, whatever the path of that.
func addressOf(t *spatev1.Target) string { return naming.Server(t.GetEndpoints()[0]) }

// withPort returns a command of a target's server with the port of its first endpoint.
func withPort(t *spatev1.Target, argv []string) (out []string) {
	_, port, _ := net.SplitHostPort(addressOf(t)) // without one, no plan has such an endpoint
	return lists.Each(argv, func(word string) string { return strings.ReplaceAll(word, "{port}", port) })
}

// inform shows a sentence.
func (s *servers) inform(format string, args ...any) {
	s.follower.show(terminal.Notice(spatev1.Severity_SEVERITY_INFO, fmt.Sprintf(format, args...)))
}

// failure says what is wrong with the server that the run wants, with the last lines of its log.
func (s *servers) failure(err error) error {
	text := fmt.Sprintf("the server of target %s: %v", s.now.GetTarget(), err)
	if s.engine != nil {
		if last := s.engine.Last(); len(last) > 0 {
			text += "; its last lines: " + strings.Join(last, " | ")
		}
	}
	const most = 1500
	return errors.New(words.Cut(text, most))
}
