package plans

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/spate-load/spate/plans/draft"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// onMachines returns a plan with some lines about machines.
func onMachines(lines, loads string) string {
	return "name: m\n" + lines + "\ntargets: [{name: t, endpoints: [\"http://h\"], model: m}]\n" +
		"workloads: [{random: {isl: 1, osl: 1}}]\nloads: " + loads + "\n"
}

// TestMachines: every stage says how it runs on several machines, with defaults filled in.
func TestMachines(t *testing.T) {
	eu := map[string]float64{"eu": 0.6, "us": 0.4}
	for name, test := range map[string]struct {
		lines string
		want  *spatev1.Stage
	}{
		"nothing": {"", &spatev1.Stage{OnAgentLoss: "fail"}},
		"all": {"on_agent_loss: reassign\nregions: {eu: 0.6, us: 0.4}",
			&spatev1.Stage{OnAgentLoss: "reassign", Regions: eu}},
		"agents": {"agents: {labels: {region: eu, pool: big}, count: 10}", &spatev1.Stage{OnAgentLoss: "fail",
			Agents: &spatev1.AgentSelector{Labels: map[string]string{"region": "eu", "pool": "big"}, Count: 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			stages := load(t, onMachines(test.lines,
				"[{rate: [5, 6], duration: 1s}, {search: {rate: {from: 5, to: 9}, keep: {error_share: 0}}, duration: 1s}]")).Outline()
			if len(stages) != 3 {
				t.Fatalf("%d stages", len(stages))
			}
			for i, s := range stages {
				got := &spatev1.Stage{OnAgentLoss: s.GetOnAgentLoss(), Regions: s.GetRegions(), Agents: s.GetAgents()}
				if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" {
					t.Errorf("stage %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// TestMachinesChangeNoSeed: machines do not affect what is sent.
func TestMachinesChangeNoSeed(t *testing.T) {
	const loads = "[{rate: [5, 6], duration: 1s}]"
	plain := load(t, onMachines("", loads)).Outline()
	for i, s := range load(t, onMachines("on_agent_loss: degrade\nregions: {eu: 1}\nagents: {count: 2}", loads)).Outline() {
		if s.GetSeed() != plain[i].GetSeed() {
			t.Errorf("stage %d has another seed", i)
		}
	}
}

func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		lines, loads string
		want         string // Empty: there is no warning.
	}{
		"nothing": {"", "[{rate: [1], duration: 1s}]", ""},
		"p99 of few requests": {"", "[{search: {rate: {from: 1, to: 100}, keep: {latencies: [{metric: ttft, percentile: 99, at_most: 1s}]}}, requests: 999}]",
			"loads[0].search.keep.latencies[0].percentile: p99 is known from 1000 requests on, ten of which lie beyond it, and " +
				"no stage has more than 999: give requests: 1000, or a lower percentile"},
		"p99 of enough": {"", "[{search: {rate: {from: 1, to: 100}, keep: {latencies: [{metric: ttft, percentile: 99, at_most: 1s}]}}, requests: 1000}]", ""},
		"p90 of no stage": {"", "[{search: {rate: {from: 1, to: 9}, keep: {latencies: [{metric: ttft, percentile: 90, at_most: 1s}]}}, duration: 10s}]",
			"and a stage of 10s has 90 at most: give a duration of 12s or more"},
		"p90 of some stages": {"", "[{frontier: {rate: {from: 1, to: 100}, keep: {latencies: [{metric: ttft, percentile: 90, at_most: 1s}]}}, duration: 10s}]",
			"fewer below 10 req/s, where it is known by its slowest requests alone: begin there, give a duration of 1m40s"},
		"a mean, and slots": {"", "[{search: {rate: {from: 1, to: 9}, keep: {latencies: [{metric: ttft, at_most: 1s}]}}, duration: 10s}, " +
			"{search: {concurrency: {from: 1, to: 9}, keep: {latencies: [{metric: ttft, percentile: 99, at_most: 1s}]}}, duration: 10s}]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := load(t, onMachines(test.lines, test.loads)).Warnings()
			if (len(got) == 0) != (test.want == "") || !strings.Contains(fmt.Sprint(got), test.want) {
				t.Errorf("got %v, want %q", got, test.want)
			}
		})
	}
}

// TestLimitsOfAnswersInOnePiece: an SLO binds where it can be measured, stage by stage. The parts of a mixture keep
// their own limits: none falls back on the plan's.
func TestLimitsOfAnswersInOnePiece(t *testing.T) {
	p := load(t, `
name: x
slo: {ttft: 1s, tpot: 1s, e2e: 9s}
targets:
  - {name: stream, simulator: {}}
  - {name: whole, simulator: {}, stream: false}
workloads:
  - {name: one, random: {isl: 1, osl: 1}}
  - name: mixed
    mix:
      parts:
        - {weight: 1, workload: {name: a, random: {isl: 1, osl: 1}}, slo: {ttft: 2s}}
        - {weight: 1, workload: {name: b, random: {isl: 1, osl: 1}}, slo: {ttft: 3s, e2e: 4s}}
        - {weight: 1, workload: {name: c, random: {isl: 1, osl: 1}}}
loads:
  - {rate: 1, requests: 1}
`)
	var got []string
	for _, s := range p.Outline() {
		for _, slo := range content.SLOs(s) {
			got = append(got, fmt.Sprint(
				slo.GetTtft().AsDuration(), slo.GetTpot().AsDuration(), slo.GetE2E().AsDuration()))
		}
	}
	want := []string{
		"1s 1s 9s", "0s 0s 9s", // with streams, and in one piece
		"0s 0s 0s", "0s 0s 4s", "0s 0s 9s", // the mixture: its second target comes first
		"2s 0s 0s", "3s 0s 4s", "1s 1s 9s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCheckRegion: the same names of regions are valid in plans, in agents' flags and in gossip.
func TestCheckRegion(t *testing.T) {
	for name, want := range map[string]string{
		"eu": "", "": "", strings.Repeat("r", 64): "", strings.Repeat("r", 65): "must have at most 64 bytes, got 65",
		strings.Repeat("é", 33): "must have at most 64 bytes, got 66", "\teu": "without spaces",
		"e\nu": "without spaces", "e\xff": "without spaces",
	} {
		if err := naming.CheckRegion(name); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	for _, long := range []string{strings.Repeat("r", 65), strings.Repeat("é", 33)} {
		_, err := Load("p", []byte(onMachines("regions: {eu: 1, "+long+": 1}", "[{rate: [5], duration: 1s}]")),
			Options{})
		if err == nil || strings.Count(err.Error(), "regions[") != 1 || !strings.Contains(err.Error(), "64") {
			t.Errorf("%v", err)
		}
	}
}

// TestDraftOnMachines: the commented lines about several machines in a draft are valid when uncommented.
func TestDraftOnMachines(t *testing.T) {
	text, err := draft.Answers{Load: "rate"}.YAML()
	if err != nil {
		t.Fatal(err)
	}
	plan, machines, found := strings.Cut(string(text), "# On several machines:\n")
	if !found {
		t.Fatalf("a draft does not speak of several machines:\n%s", text)
	}
	p := load(t, plan+strings.ReplaceAll("\n"+machines, "\n# ", "\n")).Proto()
	if p.GetOnAgentLoss() != "reassign" || len(p.GetRegions()) != 2 {
		t.Errorf("got %v", p)
	}
}
