package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/e2e/torture/judge"
	"github.com/spate-load/spate/e2e/torture/script"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// tally sums up the runs of this process.
var (
	tallying sync.Mutex
	tally    Tally
)

// everyTime are the seeds of every test run: short scripts, chosen so that each policy and each mode occurs.
var everyTime = []uint64{
	11,    // reassign: messages twice, late, in another order, acks lost
	21,    // degrade, two stages: connections reset, coordinator killed
	28,    // degrade: the coordinator's disk is full
	167,   // fail: an agent killed
	59633, // reassign: an agent killed, its part taken over, a new process joins
}

// Faults of processes, networks, disks and messages cost nothing that the result does not say. In each seed's run
// nothing is counted twice, and requests are missing only where the result says so. If the policy promises
// completeness, nothing is missing.
func TestTorture(t *testing.T) {
	seeds := everyTime
	if *runs > 0 {
		seeds = chosen(*seed, *runs, regexp.MustCompile(*only))
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			torture(t, script.Draw(seed))
		})
	}
}

// chosen returns the first n seeds, from first on, whose scripts match.
func chosen(first uint64, n int, pattern *regexp.Regexp) (seeds []uint64) {
	for seed := first; len(seeds) < n && seed < first+1_000_000; seed++ {
		if pattern.MatchString(script.Draw(seed).String()) {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// torture runs a script and judges its result. The files of a failed run are kept.
func torture(t *testing.T, s script.Script) {
	dir, err := os.MkdirTemp(*keep, fmt.Sprintf("torture-%d-", s.Seed)) //nolint:usetesting // it is kept
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("left behind: %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	play := playProcesses
	if s.Messages {
		play = playMessages
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stalls := watchMachine(ctx)
	notes, wrong := play(t, s, dir)
	cancel()
	notes.Stalls = stalls()
	took := time.Since(began)
	v := judged(t, s, dir, notes)
	v.Wrong = append(wrong, v.Wrong...)
	report(t, s, notes, v, took)
}

// judged judges the results of a run, and keeps the evidence if a flag names a directory for it.
func judged(t *testing.T, s script.Script, dir string, notes *judge.Notes) judge.Verdict {
	data, err := json.Marshal(notes)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, judge.NotesFile), data, 0o600)
	}
	for _, name := range []string{judge.ResultsFile, "requests." + s.Records} {
		err = errors.Join(err, copyFile(filepath.Join(dir, "run", name), filepath.Join(dir, name)))
	}
	if err != nil {
		return judge.Verdict{Wrong: []string{err.Error()}}
	}
	e, err := judge.Read(s, dir)
	if err != nil {
		return judge.Verdict{Wrong: []string{err.Error()}}
	}
	if *evidence != "" {
		if err := e.Keep(filepath.Join(*evidence, fmt.Sprintf("%d.json.gz", s.Seed))); err != nil {
			t.Error(err)
		}
	}
	return judge.Judge(e)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// now returns the machine's monotonic clock.
func now() judge.Instant {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		panic(err)
	}
	return judge.Instant(at.Nano())
}

// watchMachine records when this process got no processor for a while, until ctx ends. The returned function waits for
// that.
func watchMachine(ctx context.Context) (stalls func() []judge.Span) {
	done := make(chan []judge.Span, 1)
	go func() {
		var out []judge.Span
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for last := now(); ; {
			select {
			case <-ctx.Done():
				done <- out
				return
			case <-ticker.C:
				at := now()
				if at.Sub(last) > stalled {
					out = append(out, judge.Span{From: last, To: at})
				}
				last = at
			}
		}
	}()
	return func() []judge.Span { return <-done }
}

// A machine that gives no processor for longer than stalled has stood still. This is checked each tick.
const (
	tick    = 20 * time.Millisecond
	stalled = 300 * time.Millisecond
)

// newNotes starts the notes of a run.
func newNotes(run string) *judge.Notes {
	return &judge.Notes{RunID: run, WallNs: time.Now().UnixNano(), Instant: now(), Told: map[uint32]judge.Progress{}}
}

// report reports the outcome of a run.
func report(t *testing.T, s script.Script, notes *judge.Notes, v judge.Verdict, took time.Duration) {
	t.Helper()
	l := lineOf(s, notes, v, took)
	t.Logf("seed %d: %s\n%s", s.Seed, s, l)
	for i, w := range v.Wrong {
		if i == 20 {
			t.Errorf("and %d more", len(v.Wrong)-i)
			break
		}
		t.Error(w)
	}
	tallying.Lock()
	defer tallying.Unlock()
	tally.Lines = append(tally.Lines, l)
	if err := l.append(*summary); err != nil {
		t.Error(err)
	}
}

// playProcesses runs a script with processes.
func playProcesses(t *testing.T, s script.Script, dir string) (*judge.Notes, []string) {
	c := newCluster(t, s, dir)
	out := filepath.Join(dir, "run")
	plan := filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(plan, []byte(s.Plan("http://"+c.target.Address())), 0o600); err != nil {
		t.Fatal(err)
	}
	client := launch(t, dir, "client", 0, programs.Built.Spate, "run", plan, "--coordinator", c.address, "--min-agents",
		fmt.Sprint(len(s.Agents)),
		"--out", out, "--records", s.Records, "--patience", "60s", "--no-progress")
	run := c.submitted()
	notes := newNotes(run)
	ctx, cancel := context.WithTimeout(t.Context(), s.Bound())
	defer cancel()
	end := c.playFaults(ctx)
	c.follow(ctx, run, notes)
	notes.End = now()
	if ctx.Err() != nil {
		c.wrongf("the run did not end within %v", s.Bound())
	}
	end()
	c.finish(client, run, out, notes)
	return notes, c.wrong
}

// submitted waits until the run exists, and returns its ID.
func (c *cluster) submitted() (run string) {
	process.Eventually(c.t, "the run is submitted", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		list, err := c.runs.ListRuns(ctx, &spatev1.ListRunsRequest{})
		if err != nil || len(list.GetRuns()) == 0 {
			return false
		}
		run = list.GetRuns()[0].GetRunId()
		return true
	})
	return run
}

func (c *cluster) wrongf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// playFaults starts to run the script's faults at their moments. The returned function ends those in progress, skips
// the rest, and waits for all.
func (c *cluster) playFaults(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	begin := time.Now()
	for _, f := range c.script.Faults {
		all.Go(func() {
			select {
			case <-time.After(time.Until(begin.Add(f.At))):
				c.play(ctx, f)
			case <-ctx.Done():
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// follow follows the run to its end, over as many connections as necessary.
func (c *cluster) follow(ctx context.Context, run string, notes *judge.Notes) {
	after := uint64(0)
	for notes.Ended == nil && ctx.Err() == nil {
		after = c.followOnce(ctx, run, after, notes)
		pause(ctx, 50*time.Millisecond)
	}
}

// followOnce follows the run over one connection.
func (c *cluster) followOnce(ctx context.Context, run string, after uint64, notes *judge.Notes) uint64 {
	stream, err := c.runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: run, After: after})
	if err != nil {
		return after
	}
	w := watcher{notes: notes}
	for {
		m, err := stream.Recv()
		if err != nil {
			return after
		}
		after = m.GetNumber()
		w.take(m.GetEvent())
	}
}

// finish waits until the client and the agents have ended, and reads the results.
func (c *cluster) finish(client *launched, run, out string, notes *judge.Notes) {
	c.mu.Lock()
	notes.Struck = c.struck
	c.mu.Unlock()
	if !client.endsWithin(patience) {
		c.wrongf("the client does not end")
	}
	client = c.fetched(client, run, out)
	c.judgeRoom(run)
	c.endAgents()
	c.stopServing()
	code := client.cmd.ProcessState.ExitCode()
	notes.ClientCode = &code
	c.compareReport(out)
}

// fetched fetches the result of a run whose client could not know whether the run was submitted, because the
// coordinator died before it answered.
func (c *cluster) fetched(client *launched, run, out string) *launched {
	if said, err := os.ReadFile(client.log); err != nil ||
		!strings.Contains(string(said), "may have started") {
		return client
	}
	client = launch(c.t, c.dir, "fetch", 0, programs.Built.Spate, "runs", "fetch", run, "--coordinator", c.address, "--out", out)
	if !client.endsWithin(patience) {
		c.wrongf("the result cannot be fetched")
	}
	return client
}

// judgeRoom makes room on the disk that was full. The end of the run must have been written anyway, and a restarted
// coordinator must not resume it.
func (c *cluster) judgeRoom(run string) {
	if !c.full {
		return
	}
	if err := os.Remove(filepath.Join(c.data, filler)); err != nil {
		c.wrongf("%v", err)
	}
	c.coordinator.kill()
	c.startCoordinator(c.address)
	process.Eventually(c.t, "the run has ended for a coordinator that is restarted, too", func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		defer cancel()
		list, err := c.runs.ListRuns(ctx, &spatev1.ListRunsRequest{})
		return err == nil && len(list.GetRuns()) == 1 &&
			list.GetRuns()[0].GetState() == spatev1.RunState_RUN_STATE_ENDED
	})
}

// endAgents waits until all agents are idle, and then stops them.
func (c *cluster) endAgents() {
	begin, idle := time.Now(), c.script.LeaseOf()+script.Drain+patience/2
	for !c.idle() {
		if time.Since(begin) > idle {
			c.wrongf("agents still work %v after the run's end", idle)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, p := range c.agents {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range c.agents {
		if !p.endsWithin(20 * time.Second) {
			c.wrongf("%s does not end", p.name)
		}
	}
}

// idle reports whether all running agents wait for work.
func (c *cluster) idle() bool {
	running := 0
	for _, p := range c.agents {
		select {
		case <-p.ended:
		default:
			running++
		}
	}
	return c.ready() == running
}

// compareReport makes the files from the ledger again, as `spate report` does. They must be the same.
func (c *cluster) compareReport(out string) {
	again := filepath.Join(c.dir, "again")
	if err := copyLedger(out, again); err != nil {
		c.wrongf("%v", err)
		return
	}
	if p := launch(c.t, c.dir, "report", 0, programs.Built.Spate, "report", again); !p.endsWithin(patience) ||
		p.cmd.ProcessState.ExitCode() != 0 {
		c.wrongf("spate report does not end as it should")
	}
	for _, name := range []string{"results.json", "requests." + c.script.Records} {
		was, err1 := os.ReadFile(filepath.Join(out, name))
		is, err2 := os.ReadFile(filepath.Join(again, name))
		if err1 != nil || err2 != nil || string(was) != string(is) {
			c.wrongf("%s differs when it is made again (%v, %v)\n%s", name, err1, err2,
				cmp.Diff(clip(was), clip(is)))
		}
	}
}

// copyLedger copies the ledger of a run into a new directory.
func copyLedger(from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return copyFile(filepath.Join(from, "ledger.db"), filepath.Join(to, "ledger.db"))
}

// clip returns the start of a file.
func clip(b []byte) string { return string(b[:min(len(b), 2000)]) }
