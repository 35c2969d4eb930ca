package torture

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/e2e/torture/judge"
	"github.com/spate-load/spate/e2e/torture/script"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	reports "github.com/spate-load/spate/report"
)

// playMessages runs a script in this process, with faults of messages.
func playMessages(t *testing.T, s script.Script, dir string) (*judge.Notes, []string) {
	m := newMidst(t, s, dir)
	run := m.submit()
	notes := newNotes(run)
	ctx, cancel := context.WithTimeout(t.Context(), s.Bound())
	defer cancel()
	end := m.playFaults(ctx)
	m.follow(ctx, run, notes)
	notes.End = now()
	if ctx.Err() != nil {
		m.wrongf("the run did not end within %v", s.Bound())
	}
	end()
	notes.Struck = m.struck
	m.stop()
	m.stopServing()
	m.read(filepath.Join(dir, "data", run), notes)
	return notes, m.wrong
}

// midst is a cluster whose coordinator and agents are in this process.
type midst struct {
	*cluster
	noises []*Noise
	log    *slog.Logger
	coord  *coordinator.Coordinator
	end    context.CancelFunc // of the agents
	all    sync.WaitGroup     // the agents
}

// newMidst starts everything and waits until all agents are ready.
func newMidst(t *testing.T, s script.Script, dir string) *midst {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	m := &midst{
		cluster: &cluster{t: t, script: s, dir: dir, data: filepath.Join(dir, "data")},
		log:     slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.end = cancel
	m.prepareDisk()
	m.serve()
	m.coordinate()
	t.Cleanup(func() { cancel(); m.all.Wait() })
	for i := range s.Agents {
		m.join(ctx, i)
	}
	m.dial()
	process.Eventually(t, "all agents are ready", func() bool { return m.ready() == len(s.Agents) })
	return m
}

// coordinate starts the coordinator.
func (m *midst) coordinate() {
	c, err := coordinator.New(coordinator.Config{DataDir: m.data, Lease: m.script.Lease, Version: "torture",
		Logger: m.log})
	if err != nil {
		m.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	m.coord, m.address = c, l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- c.Serve(l) }()
	m.t.Cleanup(func() {
		if err := errors.Join(c.Close(), <-served); err != nil {
			m.t.Error(err)
		}
	})
}

func (m *midst) join(ctx context.Context, i int) {
	config, noise := m.script.Agents[i], NewNoise(m.script, i)
	m.noises = append(m.noises, noise)
	a, err := agent.New(agent.Config{
		Name: config.Name, Region: config.Region, Weight: uint32(config.Weight), Version: "torture",
		AgentsInProcess: len(m.script.Agents), Logger: m.log.With("agent", config.Name),
		Coordinator: func(context.Context) (string, error) { return "passthrough:///" + m.address, nil },
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), noise.Option()},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.all.Go(func() {
		if err := a.Run(ctx); err != nil && !m.full { // it cannot deliver what does not fit on the disk
			m.t.Errorf("%s: %v", config.Name, err)
		}
	})
}

func (m *midst) submit() (run string) {
	answer, err := m.runs.SubmitRun(m.t.Context(), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(m.script.Plan("http://" + m.target.Address())), PlanPath: "plan.yaml",
		Records:   m.script.Records,
		MinAgents: uint32(len(m.script.Agents)), AgentsTimeout: durationpb.New(patience),
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return answer.GetRunId()
}

// stop stops the agents, once all of them are idle.
func (m *midst) stop() {
	process.Eventually(m.t, "all agents wait for work again", func() bool { return m.ready() == len(m.script.Agents) })
	m.end()
	m.all.Wait()
}

// read reads the run's results from a copy of its ledger, because the disk may be full. Everything acked must be there.
func (m *midst) read(of string, notes *judge.Notes) {
	dir := filepath.Join(m.dir, "run")
	if err := copyLedger(of, dir); err != nil {
		m.wrongf("%v", err)
		return
	}
	if _, err := reports.Write(dir, reports.Options{}); err != nil {
		m.wrongf("%v", err)
		return
	}
	held, err := snapshotsOf(filepath.Join(dir, ledger.File))
	if err != nil {
		m.wrongf("%v", err)
	}
	var sum Trouble
	for i, noise := range m.noises {
		acked, done := noise.Acked()
		for _, k := range acked {
			if !held[k.String()] {
				m.wrongf("snapshot %d of agent %d was acked, and is not in the ledger", k.GetSequence(), i)
			}
		}
		sum = Trouble{sum.Twice + done.Twice, sum.Held + done.Held, sum.Lost + done.Lost, sum.Late + done.Late}
	}
	notes.Messages = map[string]int{"messages twice": sum.Twice, "snapshots held back": sum.Held, "acks lost": sum.Lost,
		"messages late": sum.Late}
	m.t.Logf("seed %d: messages: %+v; coordinator: %s", m.script.Seed, sum, statsOf(m.coord))
}

// statsOf formats the coordinator's counters.
func statsOf(c *coordinator.Coordinator) string {
	s := c.Stats()
	return fmt.Sprintf("%d snapshots, %d duplicates, %d refused", s.Snapshots, s.Duplicates, s.Refused)
}

// snapshotsOf returns the keys of the snapshots in a ledger.
func snapshotsOf(path string) (map[string]bool, error) {
	ledger, err := ledger.OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	stages, err := ledger.Stages()
	for _, rec := range stages {
		err = errors.Join(err, ledger.Measurements(rec.GetStage().GetIndex(), func(s *spatev1.Snapshot) error {
			held[s.GetKey().String()] = true
			return nil
		}))
	}
	return held, errors.Join(err, ledger.Close())
}
