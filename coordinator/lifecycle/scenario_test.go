package lifecycle_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var update = flag.Bool("update", false, "write what the scenarios do now into testdata")

// A scenario is prose with commands in between. A command is a line that starts with "> ". The lines below it, up to
// the next empty line, are its effects. Commands take words and key=value pairs:
//
//	run stages=east/8,west/8 min=2 timeout=30s drain=5s
//	                    begins a run: target/concurrency each, or target/search, sweep, choice; 8rps is an open loop.
//	                    search=rate:1:100 (or concurrency) keep=500ms probes=9 repeats=3;
//	                    sweep=4:64 (points, saturation); rounds=3 of a choice; pause=5s; duration=60s;
//	                    abort=0.5:20:60s (error share, after requests, duration);
//	                    until=99:0.05 (percentile of TTFT, within); steady=30s (longest warm-up until steady);
//	                    dataset=90 (MiB); loss=degrade (or reassign); regions=eu:0.6,us:0.4;
//	                    blocks=1,1,2,0 (starts of servers, by stage); failed=fail (if one does not start);
//	                    pool=big and count=2 (agents); finds=yes (shows who asks the target)
//	agents a b=3 c@eu   connect agents, with weights and regions, c@eu#big with the label pool=big; "again" starts them as new processes: agents again b
//	apply a b           agents are ready; uncertainty=1us, ref=RUN/STAGE/REVISION, note=TEXT_WITH_UNDERSCORES,
//	                    found=20 (the agent asked the target, with 20 requests)
//	reject a TEXT       an agent rejects its assignment; dead: because nothing answers at the target
//	refused a TEXT      the shell refuses an agent's next snapshot
//	snapshot a          an agent's next snapshot is merged; stage=0, window=7, begun=12,3 (items, by list), "left"
//	totals a b          the agents' last snapshots are merged; snapshots=3, failure=TEXT_WITH_UNDERSCORES, dead,
//	                    stopped, never=255 (requests never sent), unsent=1100ms (when the first of them was due)
//	closed complete     the shell has computed the result; "closed missing" if something is missing;
//	                    p99=812ms (of the TTFT), fastest=600ms, throughput=42.5, completed=100, cut=3
//	measures a b        agents keep the instant from which they were last asked to measure; "late": they cannot,
//	                    at=13s: they keep that one, asked=13s: they were asked for that one
//	observe             what was merged so far; ended=40 failed=30, tokens=9,10 (the last windows; 9x10 is ten of 9),
//	                    ttft=480ms:500ms:510ms:1200 (low, value, high, count)
//	kill b              b's control stream breaks, and no heartbeats come
//	back b              the same process is back, with its assignment; resume=none: without one;
//	                    resume=next: with the stage after; armed=no: not armed
//	tick 5s             time passes in steps of 100 ms, with heartbeats of all but the silent
//	hang 6s             the coordinator hangs: no ticks
//	silence b           b sends no heartbeats from now on
//	leave b             b was asked to end; its heartbeats say so, and "released: b" is printed once it may end
//	cordon a            a takes no new run; "cordon a drained": and leaves; "cordon a not": it takes runs again
//	served 1 [TEXT]     the server of stage 1 is ready, or failed as TEXT says
//	stop [now]          a person stops the run
//	abort               the coordinator closes
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want), never)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("%s: run with -update and look at the difference\n--- got\n%s", file, got)
			}
		})
	}
}

// play carries out a scenario's commands and returns the scenario with the effects that they have now. After the
// commands for whose numbers interrupted is true, it restarts the coordinator or, if given, calls how.
func play(t *testing.T, text string, interrupted func(command int) bool, how ...func(*scenario)) string {
	s := &scenario{
		t: t, at: clock.Instant(100 * time.Second), silent: map[string]bool{}, leaving: map[string]bool{}, freed: map[string]bool{},
		gone:        map[string]bool{},
		incarnation: map[string]uint64{},
		info:        map[string]*spatev1.AgentInfo{}, sent: map[process]uint64{}, windows: map[process]uint32{},
		world: newWorld(),
	}
	var out strings.Builder
	golden, commands := false, 0
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			golden = true
			out.WriteString(line + s.do(strings.Fields(command)))
			if commands++; interrupted(commands) {
				for _, happens := range append(how, (*scenario).restart)[:1] {
					happens(s)
				}
			}
			if s.run == nil {
				return out.String()
			}
		case strings.TrimSpace(line) == "":
			golden = false
			out.WriteString(line)
		case !golden:
			out.WriteString(line)
		}
	}
	return out.String()
}

// scenario is a run and the world around it.
type scenario struct {
	t           *testing.T
	run         *lifecycle.Run
	at          clock.Instant
	stage       uint32
	finds       bool // shows who asks the target
	connected   []string
	silent      map[string]bool
	leaving     map[string]bool
	freed       map[string]bool // leaving agents that may end
	gone        map[string]bool // no control stream
	incarnation map[string]uint64
	info        map[string]*spatev1.AgentInfo
	sent        map[process]uint64 // snapshots
	windows     map[process]uint32 // delivered of the current assignment
	asked       int64              // when the agents were last asked to begin to measure
	measured    *int64             // what they last answered; they say so in their totals
	out         strings.Builder    // effects of the current command
	*world
}

// do carries out one command and returns its effects as text.
func (s *scenario) do(words []string) string {
	options := map[string]string{}
	var args []string
	for _, w := range words[1:] {
		args = append(args, w)
		if k, v, ok := strings.Cut(w, "="); ok {
			options[k] = v
		}
	}
	commands := map[string]func([]string, map[string]string){
		"observe": s.observe, "measures": s.measures,
		"back": s.back, "run": s.begin, "agents": s.agents, "apply": s.apply, "reject": s.reject, "waits": s.waits,
		"refused": s.refused, "snapshot": s.snapshot,
		"totals": s.totals, "closed": s.closed, "kill": s.kill, "tick": s.tick, "silence": s.silence,
		"leave": s.leave, "cordon": s.cordon, "served": s.served,
		"hang":  func(a []string, _ map[string]string) { s.at = s.at.Add(s.duration(a[0])) },
		"stop":  func(a []string, _ map[string]string) { s.run.Stop(s.at, len(a) > 0) },
		"abort": func([]string, map[string]string) { s.run.Abort(s.at, "the coordinator was closed") },
	}
	f, ok := commands[words[0]]
	if !ok {
		s.t.Fatalf("no such command: %v", words)
	}
	f(args, options)
	s.drain()
	out := s.out.String()
	s.out.Reset()
	return out
}

// drain writes down the machine's effects.
func (s *scenario) drain() {
	for _, e := range s.effects() {
		if line := s.describe(e); line != "" {
			s.out.WriteString(line + "\n")
		}
	}
}

// names returns the arguments that are agents' names: no options and no keywords.
func names(args []string) []string {
	var out []string
	for _, a := range args {
		if !strings.Contains(a, "=") && a != "stopped" && a != "again" && a != "dead" && a != "left" && a != "late" {
			out = append(out, a)
		}
	}
	return out
}

func (s *scenario) begin(_ []string, o map[string]string) {
	var stages []*spatev1.Stage
	for i, cell := range strings.Split(o["stages"], ",") {
		target, users, _ := strings.Cut(cell, "/")
		stages = append(stages, &spatev1.Stage{
			Index: uint32(i), Target: &spatev1.Target{Name: target}, Workload: &spatev1.Workload{Name: "w"},
			Load:         s.load(users, o),
			DrainTimeout: durationpb.New(s.duration(o["drain"])),
		})
		if within := o["ready"]; within != "" {
			stages[i].Target.Ready = &spatev1.Ready{Within: durationpb.New(s.duration(within))}
		}
	}
	for i, st := range stages {
		if blocks := strings.Split(o["blocks"], ","); o["blocks"] != "" {
			st.Block = uint32(s.number(blocks[i]))
			st.Target.Server = &spatev1.Server{OnStartFailure: o["failed"]}
		}
		s.change(st, o)
	}
	cfg := lifecycle.Config{
		MinAgents: int(s.number(o["min"])), AgentsTimeout: s.duration(o["timeout"]),
	}
	s.world = newWorld()
	s.cfg, s.plan, s.began = cfg, stages, s.at
	s.finds = o["finds"] != ""
	s.run = lifecycle.New(cfg, "r", stages, s.at, epoch)
	s.run.Tick(s.at)
}

func (s *scenario) agents(args []string, _ map[string]string) {
	for _, a := range args {
		if a == "again" {
			continue
		}
		name, weight, _ := strings.Cut(a, "=")
		name, pool, _ := strings.Cut(name, "#")
		name, region, _ := strings.Cut(name, "@")
		if s.incarnation[name] == 0 || args[0] == "again" {
			s.incarnation[name]++
			delete(s.leaving, name)
			delete(s.freed, name)
		}
		s.info[name] = &spatev1.AgentInfo{Name: name, Weight: uint32(s.number(weight)), Region: region}
		if pool != "" {
			s.info[name].Labels = map[string]string{"pool": pool}
		}
		s.connect(name)
	}
	s.run.Tick(s.at)
}

// back lets processes come back with their assignments.
func (s *scenario) back(args []string, o map[string]string) {
	for _, name := range names(args) {
		if p := s.process(name); o["resume"] == "next" {
			s.assigned[p] = &spatev1.AssignmentRef{RunId: "r", StageIndex: s.checkpoint.GetBegun(), Revision: 1}
			s.armed[p] = true
		} else if o["resume"] != "" {
			s.assigned[p], s.armed[p] = nil, false
		} else if o["armed"] != "" {
			s.armed[p] = false
		}
		s.connect(name)
	}
}

func (s *scenario) connect(name string) {
	if !slices.Contains(s.connected, name) {
		s.connected = append(s.connected, name)
	}
	if !slices.Contains(s.joined, name) {
		s.joined = append(s.joined, name)
	}
	delete(s.silent, name)
	delete(s.gone, name)
	p := s.process(name)
	s.run.Connected(s.at, s.info[name], p.incarnation, s.assigned[p], s.armed[p])
}

func (s *scenario) ref(o map[string]string) *spatev1.AssignmentRef {
	ref := &spatev1.AssignmentRef{RunId: "r", StageIndex: s.stage, Revision: 1}
	if p := strings.Split(o["ref"], "/"); len(p) == 3 {
		ref.RunId, ref.StageIndex, ref.Revision = p[0], uint32(s.number(p[1])), uint32(s.number(p[2]))
	}
	return ref
}

func (s *scenario) apply(args []string, o map[string]string) {
	uncertainty := 20 * time.Microsecond
	if o["uncertainty"] != "" {
		uncertainty = s.duration(o["uncertainty"])
	}
	for _, name := range names(args) {
		m := &spatev1.Applied{Ref: s.ref(o), ClockUncertaintyNs: int64(uncertainty)}
		if note := o["note"]; note != "" {
			m.Preparation = &spatev1.Preparation{Lengths: "words", Notes: []string{strings.ReplaceAll(note, "_", " ")}}
		}
		if o["found"] != "" {
			m.Preparation = &spatev1.Preparation{Lengths: "server", Requests: uint32(s.number(o["found"]))}
			m.Found = &spatev1.Found{Preparation: m.GetPreparation()}
		}
		s.ready[s.process(name)] = m
		s.run.Applied(s.at, name, m)
	}
}

// measures lets agents answer when they are asked to measure.
func (s *scenario) measures(args []string, o map[string]string) {
	m := &spatev1.Measuring{Ref: s.ref(o), AskedNs: s.asked}
	if o["asked"] != "" {
		m.AskedNs = s.duration(o["asked"]).Nanoseconds()
	}
	switch {
	case o["at"] != "":
		m.FromNs = new(s.duration(o["at"]).Nanoseconds())
	case !slices.Contains(args, "late"):
		m.FromNs = new(m.GetAskedNs())
	}
	s.measured = m.FromNs
	for _, name := range names(args) {
		s.answers[s.process(name)] = m
		s.run.Measuring(s.at, name, m)
	}
}

func (s *scenario) reject(args []string, o map[string]string) {
	kind, words := spatev1.FailureKind_FAILURE_KIND_AGENT, args[1:]
	if words[0] == "dead" {
		kind, words = spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, words[1:]
	}
	s.run.Rejected(s.at, args[0], &spatev1.Rejected{Ref: s.ref(o), Reason: strings.Join(words, " "), Kind: kind})
}

func (s *scenario) waits(args []string, o map[string]string) {
	s.run.Waiting(s.at, &spatev1.Waiting{Ref: s.ref(o), Text: strings.Join(args, " ")})
}

func (s *scenario) served(args []string, _ map[string]string) {
	s.run.ServerReported(s.at, &spatev1.ReportServerRequest{StageIndex: uint32(s.number(args[0])),
		Failure: strings.Join(args[1:], " ")})
}

func (s *scenario) refused(args []string, _ map[string]string) {
	snapshot := &spatev1.Snapshot{StageIndex: s.stage,
		Key: &spatev1.SnapshotKey{Agent: args[0], Incarnation: s.incarnation[args[0]]}}
	s.run.Refused(s.at, snapshot, strings.Join(args[1:], " "))
}

func (s *scenario) merged(name string, o map[string]string, t *spatev1.Totals) {
	stage := s.stage
	if o["stage"] != "" {
		stage = uint32(s.number(o["stage"]))
	}
	s.sent[s.process(name)]++
	snapshot := &spatev1.Snapshot{
		MeasuredFromNs: s.measured,
		Key: &spatev1.SnapshotKey{RunId: "r", Agent: name, Incarnation: s.incarnation[name],
			Sequence: s.sent[s.process(name)]},
		StageIndex: stage, Revision: s.ready[s.process(name)].GetRef().GetRevision(), Totals: t,
		Window: s.window(name, o), Left: o["left"] != "",
	}
	for begun := range strings.SplitSeq(o["begun"], ",") {
		if begun != "" {
			snapshot.StartedItems = append(snapshot.StartedItems, s.number(begun))
		}
	}
	s.append(snapshot)
	s.run.Merged(s.at, snapshot)
}

// window returns the window given in the options, or else the next one that the agent delivers.
func (s *scenario) window(name string, o map[string]string) uint32 {
	p := s.process(name)
	if o["window"] != "" {
		s.windows[p] = uint32(s.number(o["window"]))
	}
	s.windows[p]++
	return s.windows[p] - 1
}

func (s *scenario) snapshot(args []string, o map[string]string) {
	if slices.Contains(args, "left") {
		o["left"] = "yes"
	}
	for _, name := range names(args) {
		s.merged(name, o, nil)
	}
}

func (s *scenario) totals(args []string, o map[string]string) {
	t := &spatev1.Totals{Snapshots: 1, Failure: strings.ReplaceAll(o["failure"], "_", " ")}
	if o["snapshots"] != "" {
		t.Snapshots = s.number(o["snapshots"])
	}
	t.Stopped = slices.Contains(args, "stopped")
	if t.NeverSent = s.number(o["never"]); o["unsent"] != "" {
		t.UnsentFromNs = new(s.duration(o["unsent"]).Nanoseconds())
	}
	switch {
	case slices.Contains(args, "dead"):
		t.FailureKind = spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD
	case t.GetFailure() != "":
		t.FailureKind = spatev1.FailureKind_FAILURE_KIND_AGENT
	}
	for _, name := range names(args) {
		s.merged(name, o, t)
	}
}

func (s *scenario) closed(args []string, o map[string]string) {
	s.outcomes[s.stage] = s.outcome(o)
	s.run.Closed(s.at, args[0] == "complete", s.outcome(o))
}

func (s *scenario) kill(args []string, _ map[string]string) {
	for _, name := range args {
		s.gone[name] = true
		s.run.Disconnected(s.at, name, s.incarnation[name], "control stream broken")
		s.connected = slices.DeleteFunc(s.connected, func(c string) bool { return c == name })
		s.joined = slices.Clone(s.connected)
	}
}

func (s *scenario) silence(args []string, _ map[string]string) {
	for _, name := range args {
		s.silent[name] = true
	}
}

func (s *scenario) leave(args []string, _ map[string]string) {
	for _, name := range args {
		s.leaving[name] = true
		s.beat(name)
	}
}

func (s *scenario) cordon(args []string, _ map[string]string) {
	to := spatev1.Cordon_CORDON_CORDONED
	switch args[len(args)-1] {
	case "drained":
		to = spatev1.Cordon_CORDON_DRAINED
	case "not":
		to = spatev1.Cordon_CORDON_UNSPECIFIED
	}
	s.cordons[args[0]] = to
	s.run.Cordon(s.at, args[0], to)
}

func (s *scenario) tick(args []string, _ map[string]string) {
	end := s.at.Add(s.duration(args[0]) + s.owed)
	s.owed = 0
	for step := 1; s.at < end; step++ {
		s.at = s.at.Add(100 * time.Millisecond)
		for _, name := range s.connected {
			if step%10 == 0 && !s.silent[name] {
				s.beat(name)
			}
		}
		s.run.Tick(s.at)
		s.drain()
	}
}

func (s *scenario) number(text string) uint64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scenario) duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// describe returns an effect in one line, empty if it is not shown.
func (s *scenario) describe(e lifecycle.Effect) string {
	switch e := e.(type) {
	case lifecycle.Send:
		return "-> " + e.Agent + ": " + s.message(e.Message)
	case lifecycle.PutStage:
		return "ledger: " + record(e.Record)
	case lifecycle.Emit:
		return "event: " + event(e.Event)
	case lifecycle.Progress:
		return fmt.Sprintf("progress: stage %d, elapsed %v, in flight %d", e.State.GetStageIndex(),
			e.State.GetElapsed().AsDuration(), e.State.GetInFlight())
	case lifecycle.CloseStage:
		if len(e.Keep.GetLatencies()) > 0 {
			return fmt.Sprintf("close stage %d, with the values of %d limits", e.Record.GetStage().GetIndex(),
				len(e.Keep.GetLatencies()))
		}
		return fmt.Sprintf("close stage %d", e.Record.GetStage().GetIndex())
	case lifecycle.PutCheckpoint:
		return "" // the scenario's effects method checks checkpoints
	case lifecycle.PutSeries:
		return "ledger: " + found(e.Record)
	case lifecycle.Finish:
		return fmt.Sprintf("finish: %v complete=%v of %d stages %s", e.Outcome, e.Complete, e.Stages, e.Reason)
	default:
		return fmt.Sprintf("%T", e)
	}
}

func (s *scenario) message(m *spatev1.ConnectResponse) string {
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectResponse_Assign:
		s.stage = m.Assign.GetRef().GetStageIndex()
		out := fmt.Sprintf("assign stage %d revision %d, rank %d of weights %v", s.stage,
			m.Assign.GetRef().GetRevision(),
			m.Assign.GetStripe().GetRank(), m.Assign.GetStripe().GetWeights()) +
			handovers(m.Assign.GetStripe().GetHandovers())
		switch {
		case m.Assign.GetFound() != nil:
			out += ", found known"
		case s.finds && m.Assign.GetAwaitsFound():
			out += ", waits"
		case s.finds:
			out += ", asks"
		}
		return out
	case *spatev1.ConnectResponse_Share:
		return fmt.Sprintf("share stage %d revision %d: %d requests", m.Share.GetRef().GetStageIndex(),
			m.Share.GetRef().GetRevision(), m.Share.GetFound().GetPreparation().GetRequests())
	case *spatev1.ConnectResponse_Revise:
		return fmt.Sprintf("revise stage %d to revision %d, rank %d of weights %v", s.stage,
			m.Revise.GetRef().GetRevision(),
			m.Revise.GetStripe().GetRank(), m.Revise.GetStripe().GetWeights()) +
			handovers(m.Revise.GetStripe().GetHandovers())
	case *spatev1.ConnectResponse_Arm:
		s.asked, s.measured = 0, nil
		return fmt.Sprintf("arm stage %d in %v", m.Arm.GetRef().GetStageIndex(),
			clock.Instant(m.Arm.GetStartClockNs()).Sub(s.at))
	case *spatev1.ConnectResponse_Stop:
		if m.Stop.GetLeave() {
			return fmt.Sprintf("leave stage %d", m.Stop.GetRef().GetStageIndex())
		}
		enough := ""
		if m.Stop.GetEnough() {
			enough = " enough"
		}
		return fmt.Sprintf("stop stage %d%s immediately=%v: %s", m.Stop.GetRef().GetStageIndex(), enough,
			m.Stop.GetImmediately(), m.Stop.GetReason())
	case *spatev1.ConnectResponse_Measure:
		s.asked = m.Measure.GetFromNs()
		return fmt.Sprintf("measure stage %d from %v", m.Measure.GetRef().GetStageIndex(),
			time.Duration(m.Measure.GetFromNs()))
	default:
		return fmt.Sprintf("%T", m)
	}
}

// record describes a stage record: who takes part, and what is known about them.
func record(r *spatev1.StageRecord) string {
	out := fmt.Sprintf("stage %d", r.GetStage().GetIndex())
	for _, a := range r.GetAgents() {
		out += " " + a.GetAgent().GetName()
		if a.GetFailure() != "" {
			out += fmt.Sprintf("(%s)", a.GetFailure())
		}
		if l := a.GetLoss(); l != nil {
			out += fmt.Sprintf("[%.3g lost from window %d", l.GetShare(), l.GetFromWindow())
			if l.UnsentFromWindow != nil {
				out += fmt.Sprintf(", unsent from window %d", l.GetUnsentFromWindow())
			}
			if l.TakenOverNs != nil {
				out += fmt.Sprintf(", taken over from %v", time.Duration(l.GetTakenOverNs()))
			}
			out += "]"
		}
		if a.LeftNs != nil {
			out += fmt.Sprintf("[left %v]", time.Duration(a.GetLeftNs()))
		}
		if a.GetJoinedNs() > 0 {
			out += fmt.Sprintf("[joined %v]", time.Duration(a.GetJoinedNs()))
		}
		if p := a.GetPreparation(); p.GetLengths() != "" {
			out += fmt.Sprintf("{lengths by %s}", p.GetLengths())
		}
	}
	if r.GetStartTime() != nil {
		out += " start " + r.GetStartTime().AsTime().Format("15:04:05.000")
	}
	if p := r.GetStage().GetProbe(); p != nil {
		out += fmt.Sprintf(" [series %d number %d %s]", p.GetSeries(), p.GetNumber(), p.GetPurpose())
	}
	if r.MeasuredFromNs != nil {
		out += fmt.Sprintf(" measured from %v", time.Duration(r.GetMeasuredFromNs()))
	}
	if r.GetStopped() {
		out += " stopped"
	}
	if r.GetEnough() != "" {
		out += fmt.Sprintf(" enough (%s)", r.GetEnough())
	}
	out += handovers(r.GetHandovers())
	if r.GetEnded() {
		out += " ended"
	}
	if r.GetFailure() != "" {
		out += " failure: " + r.GetFailure()
	}
	return out
}

// handovers describes who gives what to whom, and from when.
func handovers(all []*spatev1.Handover) string {
	out := ""
	for _, h := range all {
		out += fmt.Sprintf("; %d gives to %v", h.GetFromRank(), h.GetWeights())
		if h.GetFromNs() > 0 {
			out += fmt.Sprintf(" from %v", time.Duration(h.GetFromNs()))
		} else {
			out += fmt.Sprintf(" from items %v", h.GetFromItems())
		}
	}
	return out
}

func event(e *spatev1.RunEvent) string {
	at := e.GetTime().AsTime().Format("15:04:05.0 ")
	switch e := e.GetEvent().(type) {
	case *spatev1.RunEvent_RunStarted:
		return at + fmt.Sprintf("run began with %d agents, %d stages", len(e.RunStarted.GetAgents()),
			e.RunStarted.GetStages())
	case *spatev1.RunEvent_StageStarted:
		return at + fmt.Sprintf("stage %d began: %s, %s, %s, %d requests", e.StageStarted.GetStageIndex(),
			e.StageStarted.GetTarget(),
			e.StageStarted.GetWorkload(), e.StageStarted.GetLoad(), e.StageStarted.GetExpectedRequests())
	case *spatev1.RunEvent_StageEnded:
		return at + fmt.Sprintf("stage %d ended complete=%v %s", e.StageEnded.GetStageIndex(),
			e.StageEnded.GetComplete(), e.StageEnded.GetFailure())
	case *spatev1.RunEvent_Notice:
		return at + fmt.Sprintf("%v: %s", e.Notice.GetSeverity(), e.Notice.GetText())
	case *spatev1.RunEvent_AgentChanged:
		what := "lost (" + e.AgentChanged.GetReason() + ")"
		if e.AgentChanged.GetJoined() {
			what = "joined"
		}
		return at + fmt.Sprintf("stage %d: agent %s %s: %s", e.AgentChanged.GetStageIndex(),
			e.AgentChanged.GetAgent().GetName(), what, e.AgentChanged.GetConsequence())
	case *spatev1.RunEvent_ServerWanted:
		return at + fmt.Sprintf("stage %d wants the server of %s, start %d", e.ServerWanted.GetStageIndex(),
			e.ServerWanted.GetTarget(), e.ServerWanted.GetBlock())
	case *spatev1.RunEvent_RunEnded:
		return at + fmt.Sprintf("run ended %v complete=%v %s", e.RunEnded.GetOutcome(), e.RunEnded.GetComplete(),
			e.RunEnded.GetReason())
	default:
		return at + fmt.Sprintf("%T", e)
	}
}
