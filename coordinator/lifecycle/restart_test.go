package lifecycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// epoch is the wall time at which scripts start.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func never(int) bool { return false }

// process is an agent's process.
type process struct {
	name        string
	incarnation uint64
}

// world is what outlives a coordinator's process: its ledger and its agents' state.
type world struct {
	cfg        lifecycle.Config
	plan       []*spatev1.Stage
	began      clock.Instant
	records    map[uint32]*spatev1.StageRecord
	checkpoint *spatev1.Checkpoint
	snapshots  []*spatev1.Snapshot
	outcomes   map[uint32]series.Outcome
	joined     []string                  // connected agents
	since      clock.Instant             // start of the phase
	owed       time.Duration             // extra time, since deadlines started again
	beats      map[process]clock.Instant // last heartbeats

	assigned map[process]*spatev1.AssignmentRef
	armed    map[process]bool
	ready    map[process]*spatev1.Applied
	cordons  map[string]spatev1.Cordon
	answers  map[process]*spatev1.Measuring // newest
}

func newWorld() *world {
	return &world{
		records: map[uint32]*spatev1.StageRecord{}, outcomes: map[uint32]series.Outcome{},
		assigned: map[process]*spatev1.AssignmentRef{}, armed: map[process]bool{}, beats: map[process]clock.Instant{},
		ready: map[process]*spatev1.Applied{}, cordons: map[string]spatev1.Cordon{},
		answers: map[process]*spatev1.Measuring{},
	}
}

func (s *scenario) process(name string) process { return process{name, s.incarnation[name]} }

// effects returns the machine's effects, and applies them to the ledger and the agents. It checks that a changed
// checkpoint is always written.
func (s *scenario) effects() []lifecycle.Effect {
	effects := s.run.Effects()
	for _, e := range effects {
		switch e := e.(type) {
		case lifecycle.PutStage:
			s.records[e.Record.GetStage().GetIndex()] = e.Record
		case lifecycle.PutCheckpoint:
			if c := s.run.Checkpoint(); c.GetPhase() != s.checkpoint.GetPhase() {
				s.since = s.at
			}
			s.checkpoint = s.run.Checkpoint()
			if e.Stage != nil {
				s.records[e.Stage.GetStage().GetIndex()] = e.Stage
			}
		case lifecycle.Send:
			if !s.gone[e.Agent] {
				s.tell(s.process(e.Agent), e.Message)
			}
		}
	}
	if !s.run.Ended() && !proto.Equal(s.checkpoint, s.run.Checkpoint()) {
		s.t.Fatalf("the checkpoint was not written:\n%v\nnow\n%v", s.checkpoint, s.run.Checkpoint())
	}
	return effects
}

// beat sends a heartbeat.
func (s *scenario) beat(name string) {
	s.beats[s.process(name)] = s.at
	s.run.Heard(s.at, name, &spatev1.Heartbeat{InFlight: 4, Leaving: s.leaving[name]})
	if s.leaving[name] && s.run.Released(name) && !s.freed[name] {
		s.freed[name] = true
		fmt.Fprintf(&s.out, "released: %s\n", name)
	}
}

// tell is an agent's part of the protocol.
func (s *scenario) tell(p process, m *spatev1.ConnectResponse) {
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectResponse_Assign:
		if !proto.Equal(s.assigned[p], m.Assign.GetRef()) {
			s.assigned[p], s.armed[p], s.ready[p] = m.Assign.GetRef(), false, nil
			s.windows[p] = 0
		}
	case *spatev1.ConnectResponse_Revise:
		s.assigned[p] = m.Revise.GetRef()
	case *spatev1.ConnectResponse_Arm:
		s.armed[p] = true
		delete(s.answers, p)
	case *spatev1.ConnectResponse_Stop:
		if !s.armed[p] {
			s.assigned[p] = nil
		}
	}
}

// append adds a snapshot to the ledger if it is from an assigned process.
func (s *scenario) append(snapshot *spatev1.Snapshot) {
	for _, a := range s.records[snapshot.GetStageIndex()].GetAgents() {
		if k := snapshot.GetKey(); a.GetAgent().GetName() == k.GetAgent() && a.GetIncarnation() == k.GetIncarnation() {
			s.snapshots = append(s.snapshots, snapshot)
			if p := s.process(k.GetAgent()); snapshot.GetTotals() != nil &&
				s.assigned[p].GetStageIndex() == snapshot.GetStageIndex() {
				s.assigned[p] = nil
			}
		}
	}
}

// restart replaces the machine by one that is restored from the ledger, and lets the agents reconnect. This changes
// nothing, except that agents are told again what they know.
func (s *scenario) restart() {
	if s.run == nil || s.run.Ended() {
		return
	}
	switch s.checkpoint.GetPhase() {
	case "gathering", "pausing", "applying", "stopping":
		s.owed += s.at.Sub(s.since)
		s.since = s.at
	}
	for name := range s.silent {
		if last := s.beats[s.process(name)]; last != 0 {
			s.owed = max(s.owed, s.at.Sub(last))
		}
	}
	if !losesAgents.MatchString(s.t.Name()) {
		s.cfg.Lease = 3500 * time.Millisecond
	}
	m := lifecycle.Memory{Submission: &spatev1.Submission{Plan: s.plan}, Checkpoint: proto.CloneOf(s.checkpoint)}
	if begun := s.checkpoint.GetBegun(); begun > 0 {
		m.Stage = s.records[begun-1]
	}
	for _, p := range s.checkpoint.GetProbes() {
		o := s.outcomes[p.GetStageIndex()]
		o.Aborted = lifecycle.AbortReason(s.records[p.GetStageIndex()])
		m.Outcomes = append(m.Outcomes, o)
	}
	m.Delivered = lifecycle.NewDelivered(m.Stage)
	for _, snapshot := range s.snapshots {
		m.Delivered.Add(snapshot)
	}
	var err error
	if s.run, err = lifecycle.Restore(s.cfg, "r", m, s.at, epoch.Add(s.at.Sub(s.began))); err != nil {
		s.t.Fatal(err)
	}
	s.run.Resume(s.at)
	for name, to := range s.cordons {
		if to != spatev1.Cordon_CORDON_UNSPECIFIED { // what an agent is no more is not kept
			s.run.Cordon(s.at, name, to)
		}
	}
	s.settled()
	for _, name := range s.joined {
		if p := s.process(name); !s.silent[name] {
			s.run.Connected(s.at, s.info[name], p.incarnation, s.assigned[p], s.armed[p])
			if s.beats[p] != 0 {
				s.beat(name)
			}
			s.settled()
			if m := s.answers[p]; m != nil && m.GetAskedNs() == s.asked { // asked again, it answers again
				s.run.Measuring(s.at, name, m)
				s.settled()
			}
		}
	}
	s.reapply()
}

// settled drains the effects of a restored machine.
func (s *scenario) settled() {
	for _, e := range s.effects() {
		switch line := s.describe(e); e.(type) {
		case lifecycle.Send, lifecycle.PutCheckpoint, lifecycle.CloseStage:
		case lifecycle.Emit: // a client that is new wants to know which server is wanted
			if !losesAgents.MatchString(s.t.Name()) && !strings.Contains(line, "wants the server") {
				s.t.Errorf("a machine that was restored makes news: %s", line)
			}
		default:
			if !losesAgents.MatchString(s.t.Name()) {
				s.t.Errorf("a machine that was restored makes news: %s", line)
			}
		}
	}
}

// reapply lets agents that were ready say so again.
func (s *scenario) reapply() {
	if s.checkpoint.GetPhase() != "applying" {
		return
	}
	for _, name := range s.joined {
		if m := s.ready[s.process(name)]; m != nil && !s.silent[name] {
			s.run.Applied(s.at, name, m)
			s.settled()
		}
	}
}

// waitsAnew are the scripts with a wait that has a deadline. In a restored machine the deadline starts again, since
// agents must come back first. The same happens, only later.
var waitsAnew = map[string]string{
	"agent_killed":   "an agent that was lost has a lease to come back",
	"agent_silent":   "an agent that was silent has a lease to come back",
	"agents_missing": "agents are waited for again",
	"apply_dataset":  "agents may fetch the dataset again",
	"apply_timeout":  "agents may get ready again",
	"drain_bounded":  "agents may drain again",
	"pause":          "the pause is made again",

	"search_interrupted": "an agent that was lost has a lease to come back",
}

// lostForgotten are the commands after which an agent is lost that has no assignment of the stage in progress. A
// restored machine gives the agent a lease to come back, like all others. If it does not come back, the run fails at
// the next stage: TestWhoIsAwayHasALeaseToComeBack.
var lostForgotten = map[string][]int{"lost_between": {5, 6, 7}}

// losesAgents matches the scripts about leases that end, newcomers that get ready, agents that leave, and moments at
// which assignments change hands. After a restart leases start again, newcomers are invited again, and moments are
// later. TestRestoredMachinesDecideTheSame checks their results.
var losesAgents = regexp.MustCompile(
	"(^|/)(degrade|reassign|leave|lost_applying|lost_stopping|join|rearm|held_up|regions|stalled|select|cordon)",
)

func TestWhoIsAwayHasALeaseToComeBack(t *testing.T) {
	text, err := os.ReadFile("testdata/lost_between.txt")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "The same, but")
	for _, n := range lostForgotten["lost_between"] {
		got := play(t, first+"> apply a\n\n> tick 5s\n\n> closed missing\n", func(c int) bool { return c == n })
		if !strings.Contains(got,
			"run ended OUTCOME_FAILED complete=false agent b lost: it did not come back within 3.5s") {
			t.Errorf("restarted behind command %d:\n%s", n, got)
		}
	}
}

// An agent that left, and whose new process has joined, is not leaving after a restart of the coordinator.
func TestTheNewProcessOfOneThatLeftStays(t *testing.T) {
	text, err := os.ReadFile("testdata/leave_rolling.txt")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "> leave b")
	joined := strings.Count("\n"+first, "\n> ")
	got := play(t, first+"> tick 10s\n", func(c int) bool { return c == joined })
	if strings.Count(got, "agent a is leaving") != 1 || !strings.Contains(got, "agent a joined") {
		t.Error(got)
	}
}

// Wherever a coordinator is killed and restarted, the run continues as if nothing had happened.
func TestRestoredMachinesGoOnAsIfNothingHadBeen(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if losesAgents.MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			same := func(got string) bool {
				return got == string(text) || waitsAnew[name] != "" && timeless(got) == timeless(string(text))
			}
			commands := strings.Count("\n"+string(text), "\n> ")
			for n := 1; n <= commands; n++ {
				if slices.Contains(lostForgotten[name], n) {
					continue
				}
				if got := play(t, string(text), func(c int) bool { return c == n }); !same(got) {
					t.Errorf("restarted behind command %d:\n%s", n, difference(string(text), got))
				}
			}
			if got := play(t, string(text),
				func(n int) bool { return !slices.Contains(lostForgotten[name], n) }); !same(got) {
				t.Errorf("restarted behind each command:\n%s", difference(string(text), got))
			}
		})
	}
}

// The result of a stage without times: who is missing from which second on, and what changed hands.
var (
	comesTo = regexp.MustCompile(`(?m)^(ledger: stage .* ended.*|finish: .*)$`)
	moments = regexp.MustCompile(
		` from [0-9.]+m?s|\[left [0-9.]+m?s|joined [0-9.]+m?s| start [0-9:.]+|\((lost: )?[a-z][^)]*\)|control stream broken.*|no heartbeat.*|it did not come back.*`,
	)
)

// essence returns the results of a script's stages.
func essence(text string) string {
	return moments.ReplaceAllString(strings.Join(comesTo.FindAllString(text, -1), "\n"), "")
}

// comesToOther are the commands, in scripts about losses, after which a restart changes the results of stages, and why
// it may.
var comesToOther = map[string]struct {
	commands []int
	why      string
}{
	"degrade": {[]int{8, 9}, "one that is lost takes part in the next stage, with a lease to come back"},
	"degrade_steady": {[]int{5, 6, 7, 8, 9, 10},
		"agents are asked again, and the script does not let them answer again"},
	"join_found":    {[]int{8, 14, 24}, "the newcomer is asked again, and one that is lost has a lease to come back"},
	"join_flapping": {[]int{5}, "the newcomer is asked again, and the script does not let it answer again"},
	"join_missed":   {[]int{20, 21}, "the newcomer is asked again, and the script does not let it answer again"},
	"join_open": {[]int{7, 11, 12},
		"the newcomer is asked again, and the script does not let it answer again"},
	"join_stopped":          {[]int{7, 8, 9, 10, 11}, "agents have what they were sent, and say so when they are back"},
	"reassign_part_unheard": {[]int{7}, "agents have what they were sent, and say so when they are back"},
	"lost_applying": {[]int{4, 13, 18}, "agents get ready again, and the script does not let them say so " +
		"again"},
	"lost_stopping": {[]int{17}, "agents may drain again"},
	"rearm":         {[]int{25}, "an assignment that is missing is waited for again"},
	"reassign_all":  {[]int{9, 10, 20}, "a lost agent has a lease to come back, longer than the script lasts"},
	"reassign_open": {[]int{8},
		"a lost agent has a lease to come back, and the others' totals come before it has ended"},
}

// A restart of the coordinator may delay losses and handovers, but it does not change the results of the stages.
func TestRestoredMachinesDecideTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if !losesAgents.MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := essence(string(text))
			for n := 1; n <= strings.Count("\n"+string(text), "\n> "); n++ {
				if slices.Contains(comesToOther[name].commands, n) {
					continue
				}
				if got := essence(play(t, string(text), func(c int) bool { return c == n })); got != want {
					t.Errorf("restarted behind command %d:\n%s", n, difference(want, got))
				}
			}
		})
	}
}

// Times, progress, and notices while the run waits for agents.
var (
	times = regexp.MustCompile(
		`\d\d:\d\d:\d\d(\.\d+)?|(control stream broken; no heartbeat for|no heartbeat for|it did not come back within) [0-9.]+m?s( after the coordinator restarted)?`,
	)
	between = regexp.MustCompile(`(?m)^(progress:|event: .*waiting for agents).*\n`)
)

// timeless returns a script's output without what depends on how long something took.
func timeless(text string) string {
	return times.ReplaceAllString(between.ReplaceAllString(text, ""), "")
}

// difference returns the lines from the first difference on.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			from := max(0, i-3)
			return "want\n" + strings.Join(w[from:min(len(w), i+6)], "\n") + "\ngot\n" +
				strings.Join(g[from:min(len(g), i+6)], "\n")
		}
	}
	return "one is longer"
}

// A restarted coordinator knows that an assignment was told to end: its end is a loss, not a regular end.
func TestWhoWasSentOffStaysOut(t *testing.T) {
	text := joinedByC + "> apply a c ref=r/0/2\n\n> reject b too late ref=r/0/2\n\n> snapshot a b\n\n> totals b " +
		"stopped snapshots=2\n\n> tick 12s\n"
	commands := strings.Count(text, "> ")
	for n := commands - 3; n < commands; n++ {
		got := play(t, text, func(c int) bool { return c == n })
		if !strings.Contains(got, "0.333 lost from window 2, taken over from") {
			t.Errorf("restarted behind command %d:\n%s", n, got)
		}
	}
}

// joinedByC is a script of a stage that c has just joined.
const joinedByC = `> run stages=east/9rps duration=120s min=2 loss=reassign

> agents a b

> apply a b

> tick 2s

> agents c

> apply c

`

// An agent that has applied a handover of its own part has done so for good, even if a later change was not confirmed
// before the coordinator was killed.
func TestAHandoverSurvivesARestart(t *testing.T) {
	text := joinedByC + "> apply a b c ref=r/0/2\n\n> tick 10s\n\n> snapshot a b window=10\n\n> kill c\n\n> tick " +
		"9s\n\n> kill a\n\n> tick 1500ms\n\n" +
		"> back a\n\n> apply a b ref=r/0/3\n\n> tick 5s\n"
	commands := strings.Count(text, "> ")
	for n := commands - 4; n <= commands; n++ {
		got := play(t, text, func(c int) bool { return c == n })
		if strings.Contains(got, "agent a is dropped") || strings.Contains(got, "agent b is dropped") ||
			!strings.Contains(got, "agent c is dropped") {
			t.Errorf("restarted behind command %d:\n%s", n, got)
		}
	}
}

// An agent that never heard that it gave a part away is out as soon as it is back, with its assignment or without,
// before any of its snapshots are accepted: others have that part by now.
func TestAnAgentWhoseShareWasHandedOverIsStoppedOnReturn(t *testing.T) {
	text := strings.Replace(joinedByC, "> apply c", "> kill b\n\n> apply c", 1) +
		"> apply a c ref=r/0/2\n\n> tick 3s\n\n> tick 3s\n\n"
	restarted := strings.Count(text, "> ") - 1
	for _, how := range []string{"> back b\n", "> back b resume=none\n"} {
		got := play(t, text+how, func(c int) bool { return c == restarted })
		if _, back, _ := strings.Cut(got, how); !strings.Contains(back, "agent b is dropped") {
			t.Error(got)
		}
	}
}
