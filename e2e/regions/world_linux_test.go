package regions

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/netlab"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	controlPort = 7700
	gossipPort  = 7946
	servingPort = 8000
)

// world is a network with a cluster, each program on its own host: a coordinator, agents, servers, and a person's
// terminal. All of them have certificates.
type world struct {
	t       *testing.T
	lab     *netlab.Lab
	certs   string // directory
	dataDir string // of the coordinator
	center  *netlab.Host
	person  *netlab.Host

	coordinator *process.Process
	agents      map[string]*process.Process
	issued      map[string]certs.Files
}

// newWorld makes the network, which is still empty.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, lab: netlab.New(t), certs: filepath.Join(t.TempDir(), "certs"), dataDir: t.TempDir(),
		agents: map[string]*process.Process{}, issued: map[string]certs.Files{},
	}
	w.center, w.person = w.lab.Host("coordinator"), w.lab.Host("person")
	if err := certs.Init(w.certs, time.Now()); err != nil {
		t.Fatal(err)
	}
	return w
}

// startCoordinator starts the coordinator, or restarts it in its data directory. It takes part in gossip if the flags
// say how.
func (w *world) startCoordinator(flags ...string) {
	w.t.Helper()
	all := append([]string{"--listen", w.center.Addr(controlPort), "--data-dir", w.dataDir, "--log-format", "json"},
		w.tls(certs.Coordinator, "main")...)
	if !strings.Contains(strings.Join(flags, " "), "--gossip-listen") {
		all = append(all, "--no-gossip")
	}
	w.coordinator = start(w.t, w.center, 0, programs.Built.Coordinator, append(all, flags...)...)
	w.coordinator.Await(`"coordinator serves"`)
}

// tls makes a certificate and returns the flags of a program that has it.
func (w *world) tls(role certs.Role, name string) []string {
	w.t.Helper()
	f := w.issue(role, name)
	return []string{"--tls-ca", f.Authority, "--tls-cert", f.Cert, "--tls-key", f.Key}
}

// issue makes a certificate, or returns an existing one.
func (w *world) issue(role certs.Role, name string) certs.Files {
	w.t.Helper()
	file := string(role) + "-" + name
	if f, there := w.issued[file]; there {
		return f
	}
	f, err := certs.Issue(w.certs, role, file, nil, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	w.issued[file] = f
	return f
}

// site is the place of an agent: its region, and its paths to the coordinator and back.
type site struct {
	name, region string
	to, from     netlab.Path
	skew         time.Duration // of its clocks since boot
	flags        []string
}

// join starts an agent on a host with its name. The agent dials the coordinator unless its flags say otherwise.
func (w *world) join(s site) *netlab.Host {
	w.t.Helper()
	h := w.lab.Host(s.name)
	w.lab.OneWay(h, w.center, s.to)
	w.lab.OneWay(w.center, h, s.from)
	flags := append([]string{"--name", s.name, "--region", s.region, "--log-format", "json", "--log-level", "debug"},
		w.tls(certs.Agent, s.name)...)
	if !strings.Contains(strings.Join(s.flags, " "), "--join") {
		flags = append(flags, "--coordinator", w.center.Addr(controlPort))
	}
	w.agents[s.name] = start(w.t, h, s.skew, programs.Built.Agent, append(flags, s.flags...)...)
	return h
}

// awaitAgents waits until all agents are connected.
func (w *world) awaitAgents() {
	w.t.Helper()
	for _, a := range w.agents {
		a.Await(`"connected"`)
	}
}

// run starts `spate run` of a plan at the person's terminal, for as many agents as there are.
func (w *world) run(plan string, flags ...string) running {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "run")
	args := append([]string{"run", programs.PlanIn(w.t, plan, nil), "--out", dir, "--records", "jsonl", "--coordinator",
		w.center.Addr(controlPort), "--min-agents", fmt.Sprint(len(w.agents))},
		w.tls(certs.Client, "person")...)
	return running{start(w.t, w.person, 0, programs.Built.Spate, append(args, flags...)...), w.t, dir}
}

// serve starts a simulator on a host.
func (w *world) serve(name string, flags ...string) server {
	w.t.Helper()
	h, truth := w.lab.Host(name), filepath.Join(w.t.TempDir(), "truth.jsonl")
	args := append([]string{"simulate", "--allow-remote", "--listen", h.Addr(servingPort), "--truth-file", truth,
		"--decode-step", "1ms"}, flags...)
	s := server{start(w.t, h, 0, programs.Built.Spate, args...), w.t, h, "http://" + h.Addr(servingPort), truth}
	s.Await(`Serving `)
	return s
}

// events returns the events of the run that ended last.
func (w *world) events() []*spatev1.RunEvent {
	w.t.Helper()
	creds, err := w.issue(certs.Client, "person").Dial(certs.Client)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+w.center.Addr(controlPort), grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn,
			error) {
			return w.person.Dial(ctx, "tcp", address)
		}))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), process.Timeout)
	defer cancel()
	client := spatev1.NewRunServiceClient(conn)
	runs, err := client.ListRuns(ctx, &spatev1.ListRunsRequest{Limit: 1})
	if err != nil || len(runs.GetRuns()) == 0 {
		w.t.Fatalf("runs: %v, %v", runs, err)
	}
	follow, err := client.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: runs.GetRuns()[0].GetRunId()})
	if err != nil {
		w.t.Fatal(err)
	}
	var events []*spatev1.RunEvent
	for {
		m, err := follow.Recv()
		if err != nil {
			w.t.Fatalf("events of run %s: %v", runs.GetRuns()[0].GetRunId(), err)
		}
		events = append(events, m.GetEvent())
		if m.GetEvent().GetRunEnded() != nil {
			return events
		}
	}
}

// key makes a file with a key for gossip and returns the flag that names it.
func (w *world) key() string {
	w.t.Helper()
	var key [32]byte
	rand.Read(key[:]) // never fails, by its contract
	path := filepath.Join(w.t.TempDir(), "gossip.key")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(key[:])+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return "--gossip-key=file:" + path
}
