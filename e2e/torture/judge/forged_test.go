package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// Seeds of the kept evidence of real runs.
const (
	complete  = 21    // degrade: constant arrivals, then a closed loop; the coordinator was killed
	lost      = 12    // degrade: Poisson arrivals, an agent lost seconds of them, then constant ones
	takenOver = 59633 // reassign: Poisson arrivals, an agent killed, its part taken over, a new process joined
	closed    = 49077 // reassign: a closed loop, an agent killed, its part taken over
	failed    = 167   // fail: a closed loop that ended when an agent was killed
	full      = 28    // degrade: Poisson arrivals until the coordinator's disk was full
	constant  = 12831 // degrade: constant arrivals, an agent killed
	stopped   = 5027  // degrade: Poisson arrivals, an agent stopped for longer than its lease
)

// evidence reads the kept evidence of a run.
func evidence(tb testing.TB, seed uint64) *Evidence {
	tb.Helper()
	e, err := Kept(script.Draw(seed), fmt.Sprintf("testdata/%d.json.gz", seed))
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// The evidence of real runs is not wrong.
func TestTrueEvidenceIsNotWrong(t *testing.T) {
	for _, seed := range []uint64{complete, lost, takenOver, closed, failed, full, constant, stopped} {
		v := Judge(evidence(t, seed))
		if len(v.Wrong) > 0 || v.Lost+v.Twice > 0 || v.Complete != (v.Named == 0) || v.Kept == 0 || v.Sent < v.Kept {
			t.Errorf("seed %d: %+v", seed, v)
		}
	}
}

// forgery is false evidence.
type forgery struct {
	name  string
	seed  uint64
	forge func(*Evidence)
	says  string // a part of the message
}

// Each forgery is detected, for the right reason.
func TestForgedEvidenceIsSeen(t *testing.T) {
	for _, f := range slices.Concat(ofFindings, ofStages, ofRows, ofTimes, ofLosses, ofEnds) {
		e := evidence(t, f.seed)
		f.forge(e)
		if said := strings.Join(Judge(e).Wrong, "\n"); !strings.Contains(said, f.says) {
			t.Errorf("%s: nothing about %q in:\n%.1000s", f.name, f.says, said)
		}
	}
}

// ofFindings are forgeries that an earlier judge accepted: it took what was asked for from the ledger, through the code
// under test.
var ofFindings = []forgery{
	{"a stage fewer", complete, func(e *Evidence) {
		cutStage(e, 1)
		e.Results.Run.StagesPlanned = 1
	}, "the script has 2"},
	{"10/s for 67/s", complete, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Stage != 0 || r.Index < 40 })
		keepServed(e, func(s Served) bool { return s.Stage != 0 || s.Index < 40 })
		rate, planned := 10.0, uint64(40)
		stage := &e.Results.Stages[0]
		stage.Load.Rate, stage.Load.Requests, stage.Requests.Planned = &rate, &planned, &planned
		for i := range e.Rows {
			if r := &e.Rows[i]; r.Stage == 0 {
				move(r, int64(r.Index)*100e6-r.ScheduledNs)
			}
		}
		recount(e)
	}, "another load than the script's"},
	{"10/s that calls itself 67/s", complete, func(e *Evidence) {
		for i := range e.Rows {
			if r := &e.Rows[i]; r.Stage == 0 {
				move(r, int64(r.Index)*100e6-r.ScheduledNs)
			}
		}
		recount(e)
	}, "by the script"},
	{"no stage, and complete", complete, func(e *Evidence) {
		cutStage(e, 0)
		e.Served, e.Rows = nil, nil
	}, "0 of 2 stages"},
	{"a stage without one of its agents", complete, func(e *Evidence) {
		stage := &e.Results.Stages[0]
		stage.Agents = slices.DeleteFunc(stage.Agents, func(a Agent) bool { return a.Name == "agent-1" })
	}, "began without agent agent-1"},
	{"half of the TTFTs", complete, func(e *Evidence) { e.Results.Stages[0].TTFT.Count /= 2 }, "TTFT in all"},
	{"half of the TTFTs' values", complete, func(e *Evidence) {
		for i := range e.Rows {
			r := &e.Rows[i]
			*r.FirstTokenNs = r.StartNs + (*r.FirstTokenNs-r.StartNs)/2
			r.ITLNs[0] = *r.LastTokenNs - *r.FirstTokenNs - total(r.ITLNs[1:])
		}
		recount(e)
	}, "the server sent them after"},
	{"times ten times the server's", complete, func(e *Evidence) { stretch(e, 10); recount(e) },
		"longer than the server's"},
	{"times a tenth of the server's", complete, func(e *Evidence) { stretch(e, 0.1); recount(e) },
		"the server sent them after"},
	{"a stage that has not ended", constant, func(e *Evidence) {
		addMissing(e, 0, "the stage did not end: the coordinator died or is still working on it")
		keepRows(e, func(r Row) bool { return r.Index < 100 })
		recount(e)
	}, "has no end"},
	{"a failure without a loss", constant, func(e *Evidence) {
		for i := range e.Results.Stages[0].Agents {
			e.Results.Stages[0].Agents[i].Loss = nil
		}
	}, "what was lost is not reported"},
	{"a loss of two seconds that excuses what is missing later", constant, func(e *Evidence) {
		l := lossOf(e, 0)
		to := l.FromS + 2
		l.ToS = &to
	}, "no agent took over its part"},
	{"the same, said to be taken over", takenOver, func(e *Evidence) {
		l := lossOf(e, 0)
		to := l.FromS + 2
		l.ToS = &to
	}, "lacks request"},
}

var ofStages = []forgery{
	{"of another run", complete, func(e *Evidence) { e.Results.Run.ID = "torture-2" }, "should be of"},
	{"of another seed", complete, func(e *Evidence) { *e.Results.Run.Seed++ }, "should be of"},
	{"stages in another order", complete, func(e *Evidence) { slices.Reverse(e.Results.Stages) }, "stands in place"},
	{"another concurrency", complete, func(e *Evidence) { *e.Results.Stages[1].Load.Concurrency = 8 }, "another load"},
	{"another arrival process", complete, func(e *Evidence) { *e.Results.Stages[0].Load.Arrival = "poisson" },
		"another load"},
	{"fewer requests planned", complete, func(e *Evidence) { *e.Results.Stages[0].Requests.Planned = 200 },
		"another load"},
	{"a shorter stage", constant, func(e *Evidence) { *e.Results.Stages[0].Load.DurationS = 5 }, "another load"},
	{"concurrency 1 that calls itself 9", complete, func(e *Evidence) {
		at := int64(0)
		for i := range e.Rows {
			if r := &e.Rows[i]; r.Stage == 1 {
				move(r, at-r.ScheduledNs)
				at = r.EndNs
			}
		}
		recount(e)
	}, "in flight at most"},
	{"complete, with something missing", complete, func(e *Evidence) { e.Results.Run.Missing = []string{"a stage"} },
		"things that are missing"},
	{"a stage that is complete but for its words", complete,
		func(e *Evidence) { e.Results.Stages[0].Missing = []string{"something"} }, "things are missing"},
	{"complete, though a stage is not", lost, func(e *Evidence) {
		e.Results.Run.Complete, e.Results.Run.Missing = true,
			nil
	}, "the run is complete: true"},
	{"a promise broken", complete, func(e *Evidence) {
		e.Results.Run.Complete, e.Results.Run.Missing = false, []string{"something"}
	}, "must be complete"},
	{"a run without an end", complete, func(e *Evidence) { e.Results.Run.Outcome = nil }, "has no end of the run"},
	{"stopped without a stop", failed, func(e *Evidence) { *e.Results.Run.Outcome = "stopped" }, "no one stopped it"},
	{"failed for no reason", failed, func(e *Evidence) { e.Results.Run.Reason = nil }, "does not say why"},
	{"followers were told otherwise", complete, func(e *Evidence) { e.Notes.Ended.Complete = false },
		"followers were told complete"},
	{"the client was told otherwise", complete, func(e *Evidence) { code := 3; e.Notes.ClientCode = &code },
		"the client ended with 3"},
	{"followers were told more", complete, func(e *Evidence) { tell(e, 0, 1) }, "followers were told that 269 ended"},
	{"followers were told less", complete, func(e *Evidence) { tell(e, 0, -1) }, "followers were told that 267 ended"},
	{"a start of another day", complete, func(e *Evidence) {
		*e.Results.Stages[0].StartTime = "2026-01-01T00:00:00Z"
	}, "its requests reached the server"},
	{"an end in words that only a full disk makes", failed, func(e *Evidence) {
		addMissing(e, 0, "the stage did not end: the coordinator died or is still working on it")
	}, "no disk was full"},
}

var ofRows = []forgery{
	{"a row twice", complete, func(e *Evidence) { e.Rows = append(e.Rows, e.Rows[3]); recount(e) }, "has 2 rows"},
	{"a row of another agent", complete, func(e *Evidence) { e.Rows[3].Agent = "agent-9"; recount(e) },
		"not in the script"},
	{"a row of an agent that did not send it", complete, func(e *Evidence) { swapAgent(&e.Rows[3]) },
		"its rows come to"},
	{"completed, never answered", complete, func(e *Evidence) { served(e, 7).Answered = false }, "was not answered"},
	{"completed, never sent", complete,
		func(e *Evidence) { keepServed(e, func(s Served) bool { return s.ID != ID{0, 7} }) }, "was not answered"},
	{"lacks one that was sent", complete, func(e *Evidence) { dropRow(e, 7) }, "complete, and lacks request 7"},
	{"lacks one that was not sent", complete, func(e *Evidence) {
		dropRow(e, 267)
		keepServed(e, func(s Served) bool { return s.ID != ID{0, 267} })
	}, "complete, and lacks request 267"},
	{"lacks a whole second", complete, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Stage != 0 || r.ScheduledNs < 1e9 || r.ScheduledNs > 2e9 })
		recount(e)
	}, "complete, and lacks request 80"},
	{"one too many", complete, func(e *Evidence) { row(e, 7).Index = 300 }, "the script asks for 268"},
	{"failed for no reason", complete,
		func(e *Evidence) { class := "timeout"; row(e, 7).ErrorClass = &class; recount(e) }, "no endpoint did"},
	{"cut off, though answered", complete, func(e *Evidence) { row(e, 7).Cancelled = true; recount(e) },
		"was answered and does not count"},
	{"sent twice", complete, func(e *Evidence) { e.Served = append(e.Served, *served(e, 7)) }, "was sent 2 times"},
	{"a token short", complete, func(e *Evidence) { *row(e, 7).OutputTokens--; recount(e) }, "were asked for"},
	{"a prompt of another length", complete, func(e *Evidence) { *row(e, 7).InputTokens = 40; recount(e) },
		"the server counted"},
	{"gaps that are not its own", complete, func(e *Evidence) { row(e, 7).ITLNs[0] += 1e6; recount(e) },
		"gaps that sum up to"},
	{"started before it was due", complete, func(e *Evidence) { row(e, 7).ScheduledNs += 50e6; recount(e) },
		"scheduled at"},
	{"a warm-up that was measured", takenOver, func(e *Evidence) { warm(e).Unmeasured = false; recount(e) },
		"is of the warm-up: false"},
	{"a measured one that is called warm-up", complete, func(e *Evidence) { row(e, 7).Unmeasured = true; recount(e) },
		"requests of the warm-up"},
	{"arrivals all at once", lost, func(e *Evidence) {
		for i := range e.Rows {
			if r := &e.Rows[i]; r.Stage == 1 {
				move(r, 1e9-r.ScheduledNs)
			}
		}
		recount(e)
	}, "by the script"},
	{"rows left out", complete, func(e *Evidence) { e.Results.Stages[0].DroppedRecords = 1 }, "lacks 1 rows"},
}

var ofTimes = []forgery{
	{"all times half as long again", complete, func(e *Evidence) { stretch(e, 1.5); recount(e) },
		"longer than the server's"},
	{"sent later than said", complete, func(e *Evidence) {
		for i := range e.Served {
			s := &e.Served[i]
			s.Arrived, s.FirstToken, s.LastToken, s.Ended = s.Arrived.Add(time.Second), s.FirstToken.Add(time.Second),
				s.LastToken.Add(time.Second), s.Ended.Add(time.Second)
		}
	}, "after it started them"},
	{"one answer before the server had it", complete, func(e *Evidence) {
		r := row(e, 7)
		shift := (*r.LastTokenNs - r.StartNs) / 2
		*r.FirstTokenNs, *r.LastTokenNs, r.EndNs = *r.FirstTokenNs-shift, *r.LastTokenNs-shift, r.EndNs-shift
		*r.FirstTokenNs = max(*r.FirstTokenNs, r.StartNs)
		r.ITLNs[0] += *r.LastTokenNs - *r.FirstTokenNs - total(r.ITLNs)
		recount(e)
	}, "the server sent them after"},
	{"one answer seconds late", complete, func(e *Evidence) {
		r := row(e, 7)
		*r.LastTokenNs, r.EndNs, r.ITLNs[0] = *r.LastTokenNs+3e9, r.EndNs+3e9, r.ITLNs[0]+3e9
		recount(e)
	}, "later than the server sent it"},
}

var ofLosses = []forgery{
	{"a loss without a name", constant, func(e *Evidence) { nameless(e, 0) }, "does not name it"},
	{"a loss that the run does not name", constant, func(e *Evidence) { e.Results.Run.Missing = []string{"something"} },
		"that the run does not name"},
	{"a loss without an end", constant, func(e *Evidence) { lossOf(e, 0).ToS = nil }, "to which second"},
	{"a loss before any fault", constant, func(e *Evidence) { lossOf(e, 0).FromS = 1 }, "long before any fault"},
	{"a loss of another agent's requests", constant, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Index != 300 && r.Index != 301 && r.Index != 302 })
		recount(e)
	}, "nothing is said to be missing"},
	{"a loss of all that came before", constant, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Index > 20 })
		recount(e)
	}, "lacks request 0"},
	{"fewer requests never sent than there are", stopped, func(e *Evidence) {
		n := uint64(100)
		e.Results.Stages[0].Agents[0].NeverSent = &n
	}, "is said not to have sent 100"},
	{"a request never sent that the server received", constant, func(e *Evidence) {
		agent := slices.IndexFunc(e.Results.Stages[0].Agents, func(a Agent) bool { return a.Loss != nil })
		e.Results.Stages[0].Agents[agent].NeverSent = new(uint64)
	}, "which is said not to have sent 0"},
	{"seconds in which an agent was suspended, unreported", stopped,
		func(e *Evidence) { lossOf(e, 0).UnsentFromS = nil }, "lacks request 63"},
	{"later seconds than those in which it stood still", stopped, func(e *Evidence) { *lossOf(e, 0).UnsentFromS += 2 },
		"lacks request 63"},
	{"no whole second in which it stood still", stopped, func(e *Evidence) { *lossOf(e, 0).UnsentFromS += 0.5 },
		"before it could have failed to"},
	{"what was never sent of what is missing as a whole", stopped,
		func(e *Evidence) { *lossOf(e, 0).UnsentFromS = lossOf(e, 0).FromS }, "could have failed to"},
	{"an agent that was killed and stood still before", constant, func(e *Evidence) {
		from := 0.0
		lossOf(e, 0).UnsentFromS = &from
	}, "could have failed to"},
	{"a loss later than it was", constant, func(e *Evidence) { lossOf(e, 0).FromS += 3 }, "lost nothing before"},
	{"a loss of more than its share", constant, func(e *Evidence) { lossOf(e, 0).Share = 0.9 }, "of the load"},
	{"a loss that others took over under degrade", constant, func(e *Evidence) { lossOf(e, 0).TakenOver = true },
		"taken over under degrade"},
	{"rows of what is said to be missing", constant, func(e *Evidence) { lossOf(e, 0).FromS = 2 }, "is said to"},
	{"Poisson arrivals of agents that lost nothing", lost, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Stage != 0 || r.Index%2 == 0 })
		recount(e)
	}, "accounts for"},
	{"a request that was due after the part was taken over", takenOver, func(e *Evidence) {
		last := uint64(0)
		for _, r := range e.Rows {
			last = max(last, r.Index)
		}
		keepRows(e, func(r Row) bool { return r.Index != last })
		keepServed(e, func(s Served) bool { return s.Index != last })
		recount(e)
	}, fmt.Sprintf("lacks request %d", 616)},
	{"requests of a closed loop that no agent started", closed, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Index%4 != 1 })
		keepServed(e, func(s Served) bool { return s.Index%4 != 1 })
		recount(e)
	}, "started by no agent"},
	{"what was answered before the disk was full", full, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Index > 20 })
		recount(e)
	}, "long before any fault"},
	{"what was answered before the agent was killed", failed, func(e *Evidence) {
		keepRows(e, func(r Row) bool { return r.Index > 10 })
		recount(e)
	}, "lacks request"},
	{"an agent that is not in the script", constant, func(e *Evidence) { e.Results.Stages[0].Agents[0].Name = "agent-7" },
		"the script does not"},
	{"an agent in another region", complete, func(e *Evidence) { e.Results.Stages[0].Agents[0].Region = "ap" },
		"the script says"},
}

var ofEnds = []forgery{
	{"load after the end", complete, func(e *Evidence) {
		served(e, 7).Arrived = e.Notes.End.Add(e.Script.LeaseOf() + time.Second)
	}, "after the run's end"},
	{"load without a coordinator", complete, func(e *Evidence) {
		at := served(e, 200).Arrived
		e.Notes.Struck = []Strike{{Kind: script.KillCoordinator, Span: Span{at.Add(-e.Script.LeaseOf() - time.Second),
			at.Add(time.Second)}}}
	}, "longer than the lease"},
}

// Helpers for forgeries.

func cutStage(e *Evidence, from int) {
	e.Results.Stages = e.Results.Stages[:from]
	keepRows(e, func(r Row) bool { return int(r.Stage) < from })
	keepServed(e, func(s Served) bool { return int(s.Stage) < from })
	delete(e.Notes.Told, uint32(from))
}

func keepRows(e *Evidence, keep func(Row) bool) {
	e.Rows = slices.DeleteFunc(e.Rows, func(r Row) bool { return !keep(r) })
}

func keepServed(e *Evidence, keep func(Served) bool) {
	e.Served = slices.DeleteFunc(e.Served, func(s Served) bool { return !keep(s) })
}

func dropRow(e *Evidence, index uint64) {
	keepRows(e, func(r Row) bool { return r.ID() != ID{0, index} })
	recount(e)
}

func row(e *Evidence, index uint64) *Row {
	return &e.Rows[slices.IndexFunc(e.Rows, func(r Row) bool { return r.ID() == ID{0, index} })]
}

func warm(e *Evidence) *Row {
	return &e.Rows[slices.IndexFunc(e.Rows, func(r Row) bool { return r.Unmeasured })]
}

func served(e *Evidence, index uint64) *Served {
	return &e.Served[slices.IndexFunc(e.Served, func(s Served) bool { return s.ID == ID{0, index} })]
}

func swapAgent(r *Row) {
	if r.Agent == "agent-0" {
		r.Agent = "agent-1"
	} else {
		r.Agent = "agent-0"
	}
}

func tell(e *Evidence, stage uint32, more int) {
	p := e.Notes.Told[stage]
	p.Ended += uint64(more)
	e.Notes.Told[stage] = p
}

func lossOf(e *Evidence, stage int) *Loss {
	agents := e.Results.Stages[stage].Agents
	return agents[slices.IndexFunc(agents, func(a Agent) bool { return a.Loss != nil })].Loss
}

func addMissing(e *Evidence, stage int, words string) {
	e.Results.Stages[stage].Missing = append(e.Results.Stages[stage].Missing, words)
	e.Results.Run.Missing = append(e.Results.Run.Missing, fmt.Sprintf("stage %d: %s", stage+1, words))
}

func nameless(e *Evidence, stage int) {
	e.Results.Stages[stage].Missing, e.Results.Run.Missing = nil, nil
	addMissing(e, stage, "something")
}

// move shifts a request in time.
func move(r *Row, by int64) {
	r.ScheduledNs, r.StartNs, r.EndNs = r.ScheduledNs+by, r.StartNs+by, r.EndNs+by
	if r.FirstTokenNs != nil {
		*r.FirstTokenNs += by
	}
	if r.LastTokenNs != nil {
		*r.LastTokenNs += by
	}
}

// stretch lengthens all times from a request's start.
func stretch(e *Evidence, by float64) {
	for i := range e.Rows {
		r := &e.Rows[i]
		if !r.Completed() {
			continue
		}
		*r.FirstTokenNs = r.StartNs + int64(by*float64(*r.FirstTokenNs-r.StartNs))
		for k := range r.ITLNs {
			r.ITLNs[k] = int64(by * float64(r.ITLNs[k]))
		}
		*r.LastTokenNs = *r.FirstTokenNs + total(r.ITLNs)
		r.EndNs = *r.LastTokenNs
	}
}

func total(of []int64) (sum int64) {
	for _, v := range of {
		sum += v
	}
	return sum
}

// recount makes the results match the rows, as a careful forger would.
func recount(e *Evidence) {
	for i := range e.Results.Stages {
		claims := &e.Results.Stages[i]
		s := &stage{judge: &judge{Evidence: e}, Stage: claims}
		for k := range e.Rows {
			if e.Rows[k].Stage == claims.Index {
				s.rows = append(s.rows, &e.Rows[k])
			}
		}
		s.recount()
		if p, ok := e.Notes.Told[claims.Index]; ok {
			p.Ended, p.Failed = claims.Requests.Completed+claims.Requests.Failed, claims.Requests.Failed
			e.Notes.Told[claims.Index] = p
		}
	}
}

func (s *stage) recount() {
	all := sumOf(s.rows)
	s.Requests.Counts, s.OutputTokens, s.Requests.Unmeasured = all.counts, all.output, all.unmeasured
	s.InputTokens = &all.input
	s.TTFT, s.TPOT, s.E2E, s.ITL = of(all.ttft), of(all.tpot), of(all.e2e), of(all.itl)
	s.TTFTScheduled, s.E2EScheduled, s.SendDelay = of(all.ttftSched), of(all.e2eSched), of(all.delays)
	if took := float64(all.last-all.first) / 1e9; s.DurationS != nil {
		requests, tokens := float64(all.counts.Completed)/took, float64(all.output)/took
		s.DurationS, s.RequestThroughput, s.OutputTokenThroughput = &took, &requests, &tokens
	}
	for i := range s.Endpoints {
		s.Endpoints[i] = partOf(all)
	}
	agents, regions := s.rowsBy(func(r *Row) string { return r.Agent }),
		s.rowsBy(func(r *Row) string { return s.regionOf(r.Agent) })
	for i := range s.Agents {
		s.Agents[i].Part = partOf(sumOf(agents[s.Agents[i].Name]))
	}
	for i := range s.Regions {
		s.Regions[i].Part = partOf(sumOf(regions[s.Regions[i].Name]))
	}
}

func partOf(t sum) Part {
	return Part{Requests: t.counts, OutputTokens: t.output, TTFT: of(t.ttft), TPOT: of(t.tpot), E2E: of(t.e2e)}
}

// of returns the distribution of values.
func of(values []int64) *Distribution {
	if len(values) == 0 {
		return nil
	}
	values = slices.Sorted(slices.Values(values))
	mean, std := moments(values)
	at := func(q float64) float64 { return millis(values[min(len(values)-1, int(q*float64(len(values))))]) }
	low, high, p95, p999 := at(0), at(1), at(0.95), at(0.999)
	return &Distribution{Count: uint64(len(values)), Mean: mean, Std: &std, Min: &low, Max: &high, P50: at(0.5),
		P90: at(0.9), P95: &p95, P99: at(0.99), P999: &p999}
}

// Kept evidence is the same when it is read again.
func TestEvidenceIsKept(t *testing.T) {
	e := evidence(t, complete)
	path := t.TempDir() + "/x.json.gz"
	if err := e.Keep(path); err != nil {
		t.Fatal(err)
	}
	again, err := Kept(e.Script, path)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(e)
	b, _ := json.Marshal(again)
	if string(a) != string(b) {
		t.Error("it is not")
	}
}
