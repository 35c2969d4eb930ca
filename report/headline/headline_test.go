package headline

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// update rewrites the sentences: go test ./report/headline -update. Read each: does it say more than the numbers hold?
var update = flag.Bool("update", false, "write testdata/headlines.txt")

const golden = "testdata/headlines.txt"

// of is a case: a run, and how it is changed before it is told.
type of struct {
	name  string
	loads []load
	make  func(*results.Result)
	rows  bool // without request rows
}

var (
	one     = load{concurrency: 4, ttft: 40, tpot: 8, noise: 0.1}
	slo     = &results.Goodput{TTFTMs: new(300.0), TPOTMs: new(12.0)}
	whole   = load{concurrency: 4, ttft: 40, tpot: 1, noise: 0.1, whole: true}
	limited = load{ttft: 40, tpot: 8, noise: 0.05, slo: slo}
)

// with returns a load with a change.
func with(l load, change func(*load)) load {
	change(&l)
	return l
}

// join joins loads.
func join(all ...[]load) []load { return slices.Concat(all...) }

// named returns loads of a target.
func named(target string, loads []load) []load {
	for i := range loads {
		loads[i].target = target
	}
	return loads
}

// of workload.
func working(workload string, loads []load) []load {
	for i := range loads {
		loads[i].workload = workload
	}
	return loads
}

// searching adds a search that found a load.
func searching(target string, kept, broke *float64, change func(*results.SeriesResult)) func(*results.Result) {
	return func(r *results.Result) {
		s := results.SeriesResult{Kind: "search", Target: target, Workload: "500:50", Unit: "rate", Stages: 9, Converged: true,
			Objectives: []string{"p95 TTFT ≤ 300 ms"}, Limits: []results.LoadLimit{{Kept: kept, Broke: broke}}}
		for i := range r.Stages {
			if kept != nil && r.Stages[i].Target == target {
				s.Limits[0].Stage = &r.Stages[i].Index
			}
		}
		switch {
		case kept != nil && broke != nil:
			s.Sentence = fmt.Sprintf("%g req/s is within the limits in 2 of 2 probes, %g req/s is too high in 3 of 4 probes "+
				"(p95 TTFT 361 ms > 300 ms); VALID; 9 probes", *kept, *broke)
		case kept != nil:
			s.Sentence = fmt.Sprintf("%g req/s is within the limits in 2 of 2 probes; the upper bound of the search: raise it "+
				"to find the limit; 9 probes", *kept)
		case broke != nil:
			s.Sentence = fmt.Sprintf("%g req/s is too high in 2 of 2 probes (p95 TTFT 361 ms > 300 ms); the search does not "+
				"go below 10 req/s; 9 probes", *broke)
		}
		if change != nil {
			change(&s)
		}
		r.Run.Series = append(r.Run.Series, s)
	}
}

// both makes two changes.
func both(a, b func(*results.Result)) func(*results.Result) {
	return func(r *results.Result) { a(r); b(r) }
}

// thresholds adds one that loads pass up to a concurrency.
func thresholds(most uint32) func(*results.Result) {
	return func(r *results.Result) {
		t := results.Threshold{That: "ttft_ms.p99 < 70"}
		for _, s := range r.Stages {
			t.Stages = append(t.Stages, results.ThresholdStage{Index: s.Index, Passed: *s.Load.Concurrency <= most, Words: "88 ms, want < 70"})
		}
		r.Thresholds = append(r.Thresholds, t)
	}
}

// noting adds a note to a stage.
func noting(stage int, note string) func(*results.Result) {
	return func(r *results.Result) { r.Stages[stage].Trust.Notes = []string{note} }
}

func gpus(base, other uint32) func(*results.Result) {
	return func(r *results.Result) {
		r.Run.Targets = []results.RunTarget{{Name: "base", GPUs: &base, Baseline: true}, {Name: "new", GPUs: &other}}
	}
}

func ended(outcome, reason string) func(*results.Result) {
	return func(r *results.Result) {
		r.Run.Outcome, r.Run.Reason, r.Run.Complete = &outcome, &reason, false
		r.Run.Missing = []string{"stages 3 to 8 did not run"}
	}
}

// many returns 160 stages: two targets, two workloads, 40 loads.
func many() (loads []load) {
	var c []uint32
	for n := range uint32(40) {
		c = append(c, 1+n)
	}
	l := load{ttft: 40, tpot: 8, noise: 0.05, seconds: 5}
	for _, w := range []string{"500:50", "1500:20"} {
		loads = append(loads, working(w, named("base", each(l, 16, c...)))...)
		loads = append(loads, working(w, named("new", each(load{ttft: 30, tpot: 6, noise: 0.05, seconds: 5}, 16, c...)))...)
	}
	return loads
}

var cases = []of{
	{name: "one request", loads: []load{with(one, func(l *load) { l.most = 1 })}},
	{name: "three requests", loads: []load{with(one, func(l *load) { l.most = 3 })}},
	{name: "one load, few requests", loads: []load{with(one, func(l *load) { l.most = 60 })}},
	{name: "one load", loads: []load{one}},
	{name: "one load, no rows", loads: []load{one}, rows: true},
	{name: "one load of 10 minutes", loads: []load{with(one, func(l *load) { l.seconds = 600 })}},
	{name: "one rate", loads: []load{{rate: 20, ttft: 40, tpot: 8, noise: 0.1}}},
	{name: "one load within the SLO", loads: []load{with(one, func(l *load) { l.slo = slo })}},
	{name: "one load beyond the SLO", loads: []load{with(one, func(l *load) { l.slo = &results.Goodput{TTFTMs: new(30.0)} })}},
	{name: "one load, SLO not certain", loads: []load{with(one, func(l *load) { l.slo, l.most = &results.Goodput{TTFTMs: new(47.0)}, 60 })}},
	{name: "one load, answers in one piece", loads: []load{whole}},
	{name: "one load, SUSPECT", loads: []load{with(one, func(l *load) {
		l.verdict, l.check, l.touches = trust.Suspect, "the client read 62 % of frames late", "ttft_ms"
	})}},
	{name: "one load, throughput doubtful", loads: []load{with(one, func(l *load) {
		l.verdict, l.check, l.touches = trust.Suspect, "slots were idle 9 % of the time", "output_token_throughput"
	})}},
	{name: "one load, TPOT doubtful", loads: []load{with(one, func(l *load) {
		l.verdict, l.check, l.touches = trust.Suspect, "tokens came in bunches", "tpot_ms"
	})}},
	{name: "one load, INVALID", loads: []load{with(one, func(l *load) { l.verdict, l.check = trust.Invalid, "answers named 2 models" })}},
	{name: "three repeats of one load", loads: []load{one, with(one, func(l *load) { l.repeat = 1 }), with(one, func(l *load) { l.repeat = 2 })}},
	{name: "a replay", loads: []load{with(one, func(l *load) { l.words = "replay x1" })}},
	{name: "two replays", loads: []load{with(one, func(l *load) { l.words = "replay x1" }), with(one, func(l *load) { l.words, l.concurrency = "replay x2", 8 })}},
	{name: "a curve that saturates", loads: each(one, 16, 1, 4, 8, 16, 32, 64)},
	{name: "a curve that still rises", loads: each(one, 64, 1, 4, 8, 16)},
	{name: "a curve that falls", loads: join(each(one, 16, 1, 4, 16), []load{{concurrency: 64, ttft: 2000, tpot: 60, noise: 0.1}})},
	{name: "two loads", loads: each(one, 16, 8, 16)},
	{name: "a curve with an INVALID top", loads: join(each(one, 16, 1, 4, 16), []load{{concurrency: 64, ttft: 10, tpot: 1, verdict: trust.Invalid, check: "no frame had a token"}})},
	{name: "a curve with a SUSPECT top", loads: join(each(one, 16, 1, 4, 16), []load{{concurrency: 64, ttft: 50, tpot: 16, verdict: trust.Suspect, check: "CPU of the client was busy", touches: "tpot_ms"}})},
	{name: "a curve with a SUSPECT bottom", loads: join([]load{with(one, func(l *load) { l.concurrency, l.verdict, l.check = 1, trust.Suspect, "few values" })}, each(one, 16, 4, 16, 64))},
	{name: "rates", loads: []load{{rate: 5, ttft: 40, tpot: 8, noise: 0.1}, {rate: 20, ttft: 50, tpot: 9, noise: 0.1}, {rate: 40, ttft: 90, tpot: 12, noise: 0.1}}},
	{name: "rates beyond what the server can do", loads: []load{{rate: 5, ttft: 40, tpot: 8, noise: 0.1}, {rate: 20, ttft: 900, tpot: 9, noise: 0.1}},
		make: noting(1, "the server did not keep up with the rate: in the second half 15 of 20 requests/s ended; lower the rate")},
	{name: "one rate beyond what the server can do", loads: []load{{rate: 20, ttft: 900, tpot: 9, noise: 0.1}},
		make: noting(0, "the server did not keep up with the rate: in the second half 15 of 20 requests/s ended; lower the rate")},
	{name: "one load in which the server paused", loads: []load{with(one, func(l *load) { l.concurrency, l.most = 16, 40 })},
		make: noting(0, "no token arrived in 2 of 19 seconds, the longest time from second 8 to 10")},
	{name: "rates and concurrency", loads: []load{one, {rate: 20, ttft: 50, tpot: 9, noise: 0.1}}},
	{name: "a curve of answers in one piece", loads: each(whole, 8, 1, 4, 8, 32)},
	{name: "a curve within the SLO up to 8", loads: each(limited, 16, 1, 4, 8, 16, 32)},
	{name: "a curve within the SLO everywhere", loads: each(with(limited, func(l *load) { l.slo = &results.Goodput{TTFTMs: new(9000.0)} }), 16, 1, 4, 8, 16, 32)},
	{name: "a curve within the SLO nowhere", loads: each(with(limited, func(l *load) { l.slo = &results.Goodput{TTFTMs: new(9.0)} }), 16, 1, 4, 8)},
	{name: "a curve, few requests at its limit", loads: each(with(limited, func(l *load) { l.most, l.noise = 40, 0.1 }), 16, 1, 4, 8, 12, 16)},
	{name: "a curve within the SLO again above its limit", loads: join(each(limited, 16, 1), []load{{concurrency: 2, ttft: 400, tpot: 8, slo: slo}}, each(limited, 16, 4, 8))},
	{name: "a curve within its thresholds up to 8", loads: each(one, 16, 4, 8, 16), make: thresholds(8)},
	{name: "a curve within its thresholds nowhere", loads: each(one, 16, 4, 8, 16), make: thresholds(0)},
	{name: "one load within its threshold", loads: []load{one}, make: thresholds(4)},
	{name: "repeats of a curve", loads: func() (all []load) {
		for n := range uint32(3) {
			for _, l := range each(one, 16, 4, 16, 32) {
				l.repeat = n
				all = append(all, l)
			}
		}
		return all
	}()},
	{name: "two workloads", loads: join(working("500:50", each(one, 16, 1, 8, 32)), working("1500:20", each(one, 8, 1, 8, 32)))},
	{name: "two workloads with an SLO", loads: join(working("500:50", each(limited, 16, 1, 8, 32)), working("1500:20", each(with(limited, func(l *load) { l.tpot = 13 }), 16, 1, 8, 32)))},
	{name: "five workloads of one load", loads: join(working("a", []load{one}), working("b", []load{one}), working("c", []load{one}), working("d", []load{one}), working("e", []load{one}))},
	{name: "all requests failed", loads: []load{with(one, func(l *load) {
		l.fail, l.most, l.verdict, l.check = 1, 40, trust.Invalid, "no request completed"
	})}},
	{name: "one of ten requests failed", loads: []load{with(one, func(l *load) {
		l.fail, l.verdict, l.check = 10, trust.Suspect, "94 of 940 requests failed"
	})}, make: func(r *results.Result) { r.Stages[0].Trust.Checks[0].Name = "errors" }},
	{name: "one of a thousand requests failed", loads: []load{with(one, func(l *load) { l.fail, l.seconds = 1000, 120 })}},
	{name: "stopped", loads: each(one, 16, 1, 8), make: ended("stopped", "stopped by a person")},
	{name: "failed before any stage", make: ended("failed", "dynamo: connection refused")},
	{name: "failed, which is all that is missing", loads: []load{one}, make: func(r *results.Result) {
		ended("failed", "dynamo is hopeless")(r)
		r.Run.Missing = []string{"the run failed: dynamo is hopeless", "stage 1: the stage ended early: dynamo is hopeless"}
	}},
	{name: "failed by a server's answers", loads: []load{with(one, func(l *load) {
		l.fail, l.most, l.verdict, l.check = 1, 40, trust.Invalid, "the server answered 404 to all 40 requests"
	})}, make: func(r *results.Result) {
		const answers = `vllm is hopeless: 404: {"error": {"message": "no such model", "more": {"a": 1}}}; fail_fast: false sends the rest`
		ended("failed", answers)(r)
		r.Run.Missing = []string{answers}
		checks := &r.Stages[0].Trust.Checks
		(*checks)[0].Name = "measured"
		*checks = append(*checks, trust.Check{Name: "completeness", Verdict: trust.Suspect, Words: "ended early: " + answers})
	}},
	{name: "did not end", loads: each(one, 16, 1, 8), make: func(r *results.Result) { r.Run.Outcome, r.Run.Complete = nil, false }},
	{name: "incomplete", loads: []load{one, with(one, func(l *load) { l.concurrency, l.missing = 8, "agent b was lost" })}, make: func(r *results.Result) {
		r.Run.Complete, r.Run.Missing = false, []string{"stage 2: agent b was lost", "stage 2: totals of agent b"}
	}},
	{name: "a search", loads: []load{{rate: 55, ttft: 75, tpot: 17, noise: 0.1}}, make: searching("vllm", new(55.0), new(56.6), nil)},
	{name: "a search without a limit", loads: []load{{rate: 55, ttft: 75, tpot: 17, noise: 0.1}}, make: searching("vllm", new(55.0), nil, nil)},
	{name: "a search that no load meets", loads: []load{{rate: 10, ttft: 400, tpot: 17, noise: 0.1}}, make: searching("vllm", nil, new(10.0), nil)},
	{name: "a search that contradicts itself", loads: []load{{rate: 55, ttft: 75, tpot: 17, noise: 0.1}}, make: searching("vllm", new(55.0), new(56.6), func(s *results.SeriesResult) {
		s.Sentence += ", 2 of them overruled by the others; its probes are too few for a precision of 1 %: raise probes or narrow the bounds"
	})},
	{name: "a search that ended early", loads: []load{{rate: 55, ttft: 75, tpot: 17, noise: 0.1}}, make: searching("vllm", nil, nil, func(s *results.SeriesResult) { s.Sentence = "the search ended early: the run was stopped" })},
	{name: "a frontier", loads: each(one, 16, 1, 8, 32), make: func(r *results.Result) {
		r.Run.Series = []results.SeriesResult{{Kind: "frontier", Target: "vllm", Workload: "500:50", Unit: "concurrency", Latency: "mean E2E", Knee: new(uint32(1)),
			Sentence: "most throughput for its mean E2E at concurrency 8; 3 stages"}}
	}},
	{name: "a sweep", loads: join([]load{one}, []load{{rate: 5, ttft: 40, tpot: 8, noise: 0.1}}), make: func(r *results.Result) {
		r.Run.Series = []results.SeriesResult{{Kind: "sweep", Target: "vllm", Workload: "500:50", Sentence: "2 stages"}}
	}},
	{name: "two searches", loads: []load{{target: "base", rate: 50, ttft: 75, tpot: 17, noise: 0.1}, {target: "new", rate: 60, ttft: 75, tpot: 17, noise: 0.1}},
		make: both(searching("base", new(50.0), new(51.0), nil), searching("new", new(60.0), new(61.0), nil))},
	{name: "two targets in turns, one faster", loads: turnsOf(one, 0.8, 3)},
	{name: "two targets in turns, one slower", loads: turnsOf(one, 1.2, 3)},
	{name: "two targets in turns, the same", loads: turnsOf(with(one, func(l *load) { l.seconds, l.noise = 300, 0.02 }), 1, 3)},
	{name: "two targets in turns, much chance", loads: turnsOf(with(one, func(l *load) { l.noise, l.most = 0.8, 60 }), 0.97, 3)},
	{name: "two targets in turns, faster at tokens, slower at the first", loads: func() []load {
		all := turnsOf(one, 0.8, 3)
		for i := range all {
			if all[i].target == "new" {
				all[i].ttft = 80
			}
		}
		return all
	}()},
	{name: "two targets, one after the other", loads: join(named("base", each(one, 16, 4, 16)), named("new", each(load{ttft: 30, tpot: 6, noise: 0.1}, 16, 4, 16)))},
	{name: "two targets without rows", loads: join(named("base", each(one, 16, 4, 16)), named("new", each(load{ttft: 30, tpot: 6, noise: 0.1}, 16, 4, 16))), rows: true},
	{name: "one server twice that slows", loads: join(named("base", []load{with(one, func(l *load) { l.drift = 0.003 })}), named("new", []load{with(one, func(l *load) { l.drift = 0.003 })}))},
	{name: "two targets with an SLO", loads: join(named("base", each(limited, 16, 4, 8, 16)), named("new", each(with(limited, func(l *load) { l.tpot = 6 }), 16, 4, 8, 16)))},
	{name: "two targets with other GPUs", loads: turnsOf(one, 0.8, 3), make: gpus(2, 4)},
	{name: "two targets, one INVALID", loads: join(named("base", each(one, 16, 4)), []load{with(one, func(l *load) { l.target, l.verdict, l.check = "new", trust.Invalid, "answers named 2 models" })})},
	{name: "two targets without a load in common", loads: join(named("base", each(one, 16, 4)), named("new", each(one, 16, 8)))},
	{name: "two targets without a workload in common", loads: join(working("a", named("base", each(one, 16, 4))), working("b", named("new", each(one, 16, 4))))},
	{name: "four targets", loads: join(named("base", each(one, 16, 4, 16)), named("b", each(load{ttft: 30, tpot: 6, noise: 0.1}, 16, 4, 16)), named("c", each(load{ttft: 30, tpot: 7, noise: 0.1}, 16, 4, 16)), named("d", each(load{ttft: 30, tpot: 9, noise: 0.1}, 16, 4, 16)))},
	{name: "two targets of answers in one piece", loads: turnsOf(whole, 0.8, 3)},
	{name: "160 stages", loads: many()},
	{name: "a choice of three targets", loads: join(named("base", []load{one}), named("b", []load{with(one, func(l *load) { l.tpot = 6 })}),
		named("c", []load{with(one, func(l *load) { l.tpot = 7 })})), make: func(r *results.Result) {
		r.Run.Series = append(r.Run.Series, results.SeriesResult{Kind: "choice", Target: "b", Workload: "500:50", Best: "output_throughput",
			Rivals:   []results.Rival{{Target: "b", Stages: []uint32{1}}, {Target: "c", Change: new(-0.12), Low: new(-0.14), High: new(-0.1), Reason: new("beyond chance")}},
			Sentence: "b has the most output tok/s of 3 targets, 12 % more than c (10 to 14 %) over 3 rounds"})
	}},
}

// versus is a comparison of two runs.
var versus = []struct {
	name string
	a, b []load
	rows bool
}{
	{name: "a faster run", a: []load{one}, b: []load{with(one, func(l *load) { l.tpot = 6 })}},
	{name: "a slower run", a: each(one, 16, 4, 16), b: each(with(one, func(l *load) { l.tpot = 9 }), 16, 4, 16)},
	{name: "the same again", a: []load{with(one, func(l *load) { l.seconds, l.noise = 600, 0.02 })}, b: []load{with(one, func(l *load) { l.seconds, l.noise = 600, 0.02 })}},
	{name: "chance may have made it", a: []load{with(one, func(l *load) { l.noise = 0.8 })}, b: []load{with(one, func(l *load) { l.noise, l.tpot = 0.8, 8.1 })}},
	{name: "better and worse", a: []load{one}, b: []load{with(one, func(l *load) { l.tpot, l.ttft = 6, 80 })}},
	{name: "runs without rows", a: []load{one}, b: []load{with(one, func(l *load) { l.tpot = 6 })}, rows: true},
	{name: "a run with a stage less", a: each(one, 16, 4, 16), b: each(one, 16, 4)},
	{name: "a run with an INVALID stage", a: []load{one}, b: []load{with(one, func(l *load) { l.verdict, l.check = trust.Invalid, "answers named 2 models" })}},
	{name: "runs of answers in one piece", a: []load{whole}, b: []load{with(whole, func(l *load) { l.ttft = 60 })}},
}

// several are comparisons of more than two runs, or with another tool's file.
var several = []struct {
	name string
	runs [][]load
	tool bool
}{
	{name: "the second of three runs is the best", runs: [][]load{named("base", each(one, 16, 4, 16)), named("b", each(with(one, func(l *load) { l.tpot = 6 }), 16, 4, 16)),
		named("c", each(with(one, func(l *load) { l.tpot = 9 }), 16, 4, 16))}},
	{name: "the best of four runs at one load", runs: [][]load{named("base", []load{one}), named("b", []load{with(one, func(l *load) { l.tpot = 7 })}),
		named("c", []load{with(one, func(l *load) { l.tpot = 6 })}), named("d", []load{with(one, func(l *load) { l.tpot = 6.02 })})}},
	{name: "the baseline is the best of three runs", runs: [][]load{named("base", []load{one}), named("b", []load{with(one, func(l *load) { l.tpot = 9 })}), named("c", []load{with(one, func(l *load) { l.tpot = 12 })})}},
	{name: "three runs that chance may tell apart", runs: [][]load{named("base", []load{with(one, func(l *load) { l.noise = 0.8 })}), named("b", []load{with(one, func(l *load) { l.noise, l.tpot = 0.8, 8.1 })}), named("c", []load{with(one, func(l *load) { l.noise, l.tpot = 0.8, 7.9 })})}},
	{name: "three runs at one rate", runs: [][]load{named("base", []load{{rate: 20, ttft: 40, tpot: 8, noise: 0.1}}), named("b", []load{{rate: 20, ttft: 40, tpot: 6, noise: 0.1}}), named("c", []load{{rate: 20, ttft: 40, tpot: 9, noise: 0.1}})}},
	{name: "three runs, one INVALID", runs: [][]load{named("base", []load{one}), named("b", []load{with(one, func(l *load) { l.tpot = 6 })}), named("c", []load{with(one, func(l *load) { l.verdict, l.check = trust.Invalid, "answers named 2 models" })})}},
	{name: "another tool's file", runs: [][]load{named("base", []load{one}), named("file.json", []load{one})}, tool: true},
}

// told returns the sentences of all cases.
func told(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, c := range cases {
		r := run(c.loads...)
		if c.rows {
			r.Requests = nil
		}
		if c.make != nil {
			c.make(r.Result)
		}
		h, _, err := Of(r)
		if err != nil {
			t.Fatal(err)
		}
		verdict := ""
		if h.Verdict != nil {
			verdict = " " + *h.Verdict
		}
		fmt.Fprintf(&b, "== %s: %s%s %d\n%s\n", c.name, h.Kind, verdict, h.Stages, strings.Join(h.Lines(), "\n"))
		r.Result.Headline = h
		for _, f := range Facts(r.Result) {
			fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Text)
		}
	}
	for _, c := range versus {
		x, y := run(c.a...), run(c.b...)
		if c.rows {
			x.Requests = nil
		}
		x.Name, y.Name, y.Result.Run.ID = "before", "after", "other"
		of, err := compare.Of([]compare.Side{{Name: "before", Runs: []*compare.Run{x}}, {Name: "after", Runs: []*compare.Run{y}}},
			compare.Options{Tolerance: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "== %s\n%s\n", c.name, strings.Join(Compared(&of.Sides[0], "before"), "\n"))
	}
	for _, c := range several {
		var sides []compare.Side
		for _, loads := range c.runs {
			r := run(loads...)
			r.Result.Run.ID = fmt.Sprint(len(sides))
			if r.Name = r.Result.Stages[0].Target; c.tool && len(sides) > 0 {
				r.Requests, r.Tool, r.Numbers = nil, "GuideLLM", map[uint32]map[string]*float64{0: {"output_token_throughput": new(500.0)}}
			}
			sides = append(sides, compare.Side{Name: r.Name, Runs: []*compare.Run{r}})
		}
		of, err := compare.Of(sides, compare.Options{Tolerance: 0.01})
		if err != nil {
			t.Fatal(err)
		}
		h := Best(of)
		fmt.Fprintf(&b, "== %s: %s\n%s\n", c.name, *h.Verdict, strings.Join(h.Lines(), "\n"))
	}
	return b.String()
}

// The sentences are those that a person read, each with the question whether it says more than the numbers hold.
func TestSentences(t *testing.T) {
	got := told(t)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	before, after := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range min(len(before), len(after)) {
		if before[i] != after[i] {
			t.Fatalf("line %d:\n%s\nwant\n%s", i+1, after[i], before[i])
		}
	}
	t.Fatalf("%d lines, want %d", len(after), len(before))
}

// The overview has the numbers of the answer, with the differences from the baseline. What is not known is n/a.
func TestOverview(t *testing.T) {
	r := run(join(named("base", each(limited, 16, 4, 8, 16)),
		named("new", each(with(limited, func(l *load) { l.tpot = 6 }), 16, 4, 8, 16)),
		working("other", named("new", []load{whole})))...)
	gpus(2, 4)(r.Result)
	var b strings.Builder
	for _, row := range Overview(r.Result).Rows {
		for _, c := range row.Cells {
			b.WriteString(c.Text + "|")
		}
		b.WriteByte('\n')
	}
	want := `500:50|output tok/s within the SLO|732 at concurrency 8|1,570 at concurrency 16 (+115 %)|
500:50|highest output tok/s|1,211 at concurrency 16|1,570 at concurrency 16 (+29.6 %)|
500:50|highest output tok/s per GPU|606 at concurrency 16|393 at concurrency 16 (-35.2 %)|
500:50|tok/s of a user|101 at concurrency 8|113 at concurrency 16|
500:50|first token, median ms|56.1 at concurrency 8|72.1 at concurrency 16|
other|highest req/s|n/a|44.9 at concurrency 4|
other|highest req/s per GPU|n/a|11.2 at concurrency 4|
other|whole answer, median ms|n/a|89.1 at concurrency 4|
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	alone := Overview(run(join(named("base", each(limited, 16, 4, 8, 16)))...).Result)
	var heads []string
	for _, c := range alone.Columns {
		heads = append(heads, c.Header)
	}
	if got, want := strings.Join(heads, "|"), "Workload|output tok/s within the SLO|highest output tok/s|tok/s of a user|"+
		"first token, median ms|first token, p95 ms|whole answer, median ms|whole answer, p95 ms|requests/s"; got != want {
		t.Errorf("columns %s", got)
	}
	if got := strings.Join(alone.Texts(alone.Rows[0]), "|"); len(alone.Rows) != 1 ||
		!strings.HasPrefix(got, "500:50|732 at concurrency 8|1,211 at concurrency 16|101 at concurrency 8|56.1|") {
		t.Errorf("%d rows: %s", len(alone.Rows), got)
	}
}

// The sentence of a week counts what changed from one run to the next in it, and names it.
func TestWeek(t *testing.T) {
	at := func(day int) *timestamppb.Timestamp {
		return timestamppb.New(time.Date(2026, 11, day, 2, 0, 0, 0, time.UTC))
	}
	change := 0.238
	line := &spatev1.HistoryLine{Target: "vllm", Workload: "chat", Load: "concurrency 8", Unit: "ms", Points: []*spatev1.HistoryPoint{
		{Run: "old", Time: at(10)},
		{Run: "before", Time: at(12), Against: "old", Change: &change, Outcome: string(compare.Worse)},
		{Run: "monday", Time: at(23), Against: "before", Outcome: string(compare.Same)},
		{Run: "friday", Time: at(27), Against: "monday", Change: &change, Outcome: string(compare.Worse)},
	}}
	for want, lines := range map[string][]*spatev1.HistoryLine{
		"": {{Points: line.Points[:1]}},
		"Since 20 November: of 2 comparisons 1 worse, 1 same: vllm, chat, concurrency 8 +23.8 % in friday.": {line},
		"Since 16 November: of 1 comparison 1 same.":                                                        {{Points: line.Points[:3]}},
	} {
		if got := Week(lines); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Facts name the agents, those that were lost, and where requests failed; to run a plan again takes its files.
func TestAgents(t *testing.T) {
	r := run(one, one).Result
	r.Run.Agents = []results.RunAgent{{Name: "eu-1", Region: "eu"}, {Name: "us-1", Region: "us"}, {Name: "local"}}
	r.Stages[0].Agents = []results.AgentResult{{Name: "eu-1", Loss: &results.Loss{}}, {Name: "us-1", Breakdown: results.Breakdown{
		Requests: results.Outcomes{Failed: 3}}}}
	r.Stages[1].Agents = []results.AgentResult{{Name: "us-1", Failure: new("it was stopped")}}
	want := Fact{"Agents", "3 agents: eu-1 in eu, us-1 in us, local; lost or failed: eu-1 in stage 1, us-1 in stage 2; " +
		"failed requests: us-1 3"}
	if got := Facts(r)[2]; got != want {
		t.Errorf("%+v", got)
	}
	r.Stages[1].Parts = []results.PartResult{{Dataset: &results.Dataset{}}}
	if got := Facts(r)[3].Text; !strings.HasSuffix(got, "; the files that it names by relative paths must be there") {
		t.Error(got)
	}
}
