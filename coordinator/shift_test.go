package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var (
	shiftLength = flag.Duration("shift", time.Hour, "length of TestAShift in virtual time; 12h is a whole one")
	shiftSeed   = flag.Uint64("shift-seed", 0, "seed of TestAShift (0: a random one)")
)

// shift is a coordinator with a fleet and people who submit runs, in virtual time. The coordinator is the real one,
// with its ledgers and its audit log; agents call what its services call.
type shift struct {
	t     *testing.T
	draw  *rand.Rand
	cfg   Config
	c     *Coordinator
	began time.Time
	hands []*hand

	length time.Duration

	rebuilds func(run string) // called before a run is rebuilt; nil: nothing is

	ids       []string          // of the runs, in the order of submission
	servers   map[string]string // server of a run
	submitter map[string]string // who submitted a run
	refused   int               // snapshots
	changed   int               // agents that were drained, and came back with the next version
}

// Five people submit 40 runs of several priorities to 30 agents in three regions. 72 times, in twelve hours every ten
// minutes, an agent is killed and comes back, all are upgraded once, and the coordinator is lost once and restored from
// a copy in an empty directory. Each run is complete or says what is missing, none has an agent of another one, no
// server is loaded by two, and the audit log has everything that people did.
func TestAShift(t *testing.T) {
	seed := *shiftSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (-shift-seed), %v of virtual time (-shift)", seed, *shiftLength)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(50 * 365 * 24 * time.Hour) // instants count from the start of this process
		s := newShift(t, dir, seed)
		defer func() {
			if err := s.c.Close(); err != nil {
				t.Error(err)
			}
		}()
		s.work()
		s.check()
	})
}

func newShift(t *testing.T, dir string, seed uint64) *shift {
	s := &shift{
		t: t, draw: rand.New(rand.NewPCG(seed, 1)), began: time.Now(), length: *shiftLength,
		servers: map[string]string{}, submitter: map[string]string{},
	}
	policy := filepath.Join(dir, "access.yaml")
	if err := os.WriteFile(policy, []byte("default: operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := access.Open(policy, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.cfg = Config{
		DataDir: filepath.Join(dir, "first"), Logger: slog.New(slog.DiscardHandler), Version: "v1", Access: file, MaxRuns: 8,
		Run: lifecycle.Config{Stall: 10 * time.Minute},
	}
	s.start()
	for i := range 30 {
		region := []string{"eu", "us", "asia"}[i/10]
		s.hands = append(s.hands, &hand{s: s, number: uint64(i), version: "v1", info: &spatev1.AgentInfo{
			Name: fmt.Sprintf("%s-%d", region, i%10), Region: region, Weight: 1,
			Labels: map[string]string{"pool": []string{"big", "small"}[i%2]},
		}})
	}
	return s
}

// start starts the coordinator, without its network.
func (s *shift) start() {
	var err error
	if err = os.MkdirAll(s.cfg.DataDir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if s.c, err = New(s.cfg); err != nil {
		s.t.Fatal(err)
	}
	if s.rebuilds != nil {
		s.c.rebuilds = s.rebuilds
	}
	if err := s.c.lockData(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.c.resumeRuns(); err != nil {
		s.t.Fatal(err)
	}
}

// passed returns the time since the start.
func (s *shift) passed() time.Duration { return time.Since(s.began) }

// every reports whether this second is one of those at an interval.
func (s *shift) every(interval time.Duration) bool { return s.passed()%interval == 0 }

// work plays the shift, and then lets the runs end.
func (s *shift) work() {
	const people, runs = 5, 40
	length := s.length
	for submitted := 0; s.passed() < length || s.unended(); {
		time.Sleep(time.Second)
		if submitted < runs && s.every((length / 2 / runs).Truncate(time.Second)) && s.passed() > time.Minute {
			s.submit(submitted, []string{"anna", "bob", "carl", "dora", "emil"}[submitted%people])
			submitted++
		}
		if s.passed() < length && s.every(max(5*time.Minute, length/72).Truncate(time.Second)) {
			s.hands[s.draw.IntN(len(s.hands))].kill()
		}
		if s.passed() == length/3 {
			s.restore()
		}
		if s.passed() > length/2 && s.every((length / 3 / time.Duration(len(s.hands))).Truncate(time.Second)) {
			s.upgrade()
		}
		for _, h := range s.hands {
			h.step()
		}
		s.checkLoads()
		if s.passed() > length+24*time.Hour {
			list, _ := s.c.unendedRuns()
			s.t.Fatalf("the runs never end: %v", list)
		}
	}
}

// unended reports whether a run waits or is in progress.
func (s *shift) unended() bool {
	stats := s.c.Stats()
	return stats.Waiting+len(stats.Runs) > 0
}

// as returns the context of a call by a person.
func as(t *testing.T, who string) context.Context { return access.WithNamedToken(t.Context(), who) }

// submit submits a run.
func (s *shift) submit(number int, who string) {
	rate, server := 2+s.draw.IntN(6), fmt.Sprintf("server-%d.lab:8000", s.draw.IntN(10))
	agents := fmt.Sprintf("agents: {count: %d", 1+s.draw.IntN(7))
	switch kind := s.draw.IntN(9); {
	case number%17 == 16:
		agents = "" // all
	case kind < 3:
		agents += ", labels: {region: " + []string{"eu", "us", "asia"}[s.draw.IntN(3)] + "}}"
	case kind < 5:
		agents += ", labels: {pool: big}}"
	default:
		agents += "}"
	}
	plan := fmt.Sprintf("name: %s\non_agent_loss: %s\ntargets: [{name: t, endpoints: [\"http://%s\"], model: m}]\n"+
		"workloads: [{random: {isl: 10, osl: 5}}]\nloads: [{rate: [1, %d], duration: %ds}]\n%s\n", who,
		[]string{"fail", "degrade", "reassign", "reassign"}[s.draw.IntN(4)], server, rate, int(s.length.Seconds())*(5+s.draw.IntN(40))/720, agents)
	answer, err := runService{c: s.c}.SubmitRun(as(s.t, who), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(plan), MinAgents: 1, AgentsTimeout: durationpb.New(time.Minute),
		Priority: int32(s.draw.IntN(3)),
	})
	if err != nil {
		s.t.Fatalf("%v: %s", err, plan)
	}
	id := answer.GetRunId()
	s.ids = append(s.ids, id)
	s.servers[id], s.submitter[id] = server, who
}

// upgrade drains the next agent that has the old version. Its step restarts it once it is drained.
func (s *shift) upgrade() {
	for _, h := range s.hands {
		if h.version == "v1" && !h.draining && h.session != nil {
			h.draining = true
			h.cordon(spatev1.Cordon_CORDON_DRAINED)
			return
		}
	}
}

// restore copies the data directory, loses the coordinator half a minute later, and starts another one with the copy.
func (s *shift) restore() {
	synctest.Wait()
	copied := filepath.Join(filepath.Dir(s.cfg.DataDir), "second")
	if err := os.CopyFS(copied, dirWithoutLock{os.DirFS(s.cfg.DataDir)}); err != nil {
		s.t.Fatal(err)
	}
	for range 30 {
		time.Sleep(time.Second)
		for _, h := range s.hands {
			h.step()
		}
	}
	for _, h := range s.hands {
		h.session = nil // it hears nothing of the end
	}
	if err := s.c.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.cfg.DataDir, s.cfg.Version = copied, "v2"
	s.start()
}

// dirWithoutLock hides the lock of a data directory.
type dirWithoutLock struct{ fs.FS }

func (d dirWithoutLock) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(d.FS, name)
	return slices.DeleteFunc(list, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), "lock") }), err
}

// checkLoads fails the test if two runs load one server.
func (s *shift) checkLoads() {
	runs := map[string]bool{}
	for _, h := range s.hands {
		if h.job != nil && h.job.start != 0 {
			runs[h.job.ref.GetRunId()] = true
		}
	}
	loads := map[string]string{}
	for id := range runs {
		if other := loads[s.servers[id]]; other != "" {
			s.t.Fatalf("%v: %s and %s load %s", s.passed(), id, other, s.servers[id])
		}
		loads[s.servers[id]] = id
	}
}

// check checks what is left of the shift.
func (s *shift) check() {
	synctest.Wait()
	if err := s.c.Close(); err != nil {
		s.t.Fatal(err)
	}
	whole := 0
	for _, id := range s.ids {
		l, err := ledger.OpenReadOnly(filepath.Join(s.cfg.DataDir, id, ledger.File))
		if err != nil {
			s.t.Fatal(err)
		}
		if s.checkRun(l) {
			whole++
		}
		if err := l.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Logf("%d runs, %d complete, after %v; %d agents were drained and came back with the next version; %d snapshots "+
		"were refused", len(s.ids), whole, s.passed(), s.changed, s.refused)
	if whole < len(s.ids)/4 || s.changed < len(s.hands) {
		s.t.Errorf("%d of %d runs are complete, %d of %d agents were upgraded", whole, len(s.ids), s.changed, len(s.hands))
	}
	s.checkAudit()
}

// checkRun fails the test if a run has not ended, or is not complete and does not say why. It reports whether the run
// is complete.
func (s *shift) checkRun(l *ledger.Ledger) (whole bool) {
	record, err := l.Run()
	if err != nil {
		s.t.Fatal(err)
	}
	result, err := results.Of(l)
	switch {
	case err != nil:
		s.t.Errorf("%s: %v", record.GetRunId(), err)
	case record.GetEndTime() == nil || record.GetBeginTime() == nil:
		s.t.Errorf("%s has not ended, or never began: %v", record.GetRunId(), record.GetReason())
	case result.Run.Complete:
		return true
	case len(result.Run.Missing) == 0:
		s.t.Errorf("%s lacks something, and does not say what: %s", record.GetRunId(), record.GetReason())
	}
	return false
}

// checkAudit fails the test if the log lacks a submission, a drain or an uncordon, or has another person's name.
func (s *shift) checkAudit() {
	f, err := os.Open(filepath.Join(s.cfg.DataDir, "audit.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	done, by := map[access.Action]int{}, map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e access.AuditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.t.Fatal(err)
		}
		done[e.Action]++
		if e.Action == access.Submit {
			by[e.Run] = e.By
		}
	}
	for _, id := range s.ids {
		if by[id] != s.submitter[id] {
			s.t.Errorf("%s was submitted by %s, and the audit log has %q", id, s.submitter[id], by[id])
		}
	}
	if done[access.Drain] != s.changed || done[access.Uncordon] != s.changed {
		s.t.Errorf("%v in the audit log, and %d agents were drained and uncordoned", done, s.changed)
	}
}
