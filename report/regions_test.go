package report

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report/requests"
)

// distributedDir creates the run directory of a stage with agents a in eu and b in us. Agent b was lost, and the
// coordinator was restarted.
func distributedDir(t *testing.T) string {
	t.Helper()
	dir, run, rec := t.TempDir(), runRecord(requests.JSONL), stageRecord(0)
	run.Stages, run.Restarts = 1, 2
	rec.Agents[1].Agent.Region = "us"
	rec.Agents[1].Loss = &spatev1.Loss{FromWindow: 1, TakenOverNs: new(int64(4e9)), Share: 0.25}
	all := snapshotsOf(0)
	all[1].Totals.StartErrorNs, all[1].DroppedRecords = 310_000, 3
	l, err := ledger.Create(filepath.Join(dir, ledger.File), ledger.Change{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Put(ledger.Change{Stages: []*spatev1.StageRecord{rec}})
	_, appendErr := l.Append(all)
	if err := errors.Join(err, appendErr, l.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

const lostLine = "agent b (25 % of the load) lost: seconds 1 to 4 are missing, then taken over"

func TestReportOfSeveralRegions(t *testing.T) {
	files := written(t, distributedDir(t))
	const stage = "| 1: Dynamo 3P1D, 100:4, concurrency 1 | "
	for _, want := range []string{
		"> - stage 1: " + lostLine + "\n",
		"- The coordinator was restarted during the run: 2 times\n",
		"\n! concurrency 1: PARTIAL: " + lostLine +
			"; 3 request rows are missing from the requests file, nothing else: an agent's memory for them was full\n",
		"## Regions\n\n| Stage | Region | Agents | Completed | Failed | Cancelled | req/s |",
		stage + "eu | 1 | 20 | 0 | 0 | 10.81! | 43.22! | 41.47! | 45.67! | ", stage + "us | 1 | 10 | 0 | 0 | ",
		" | 3.00 | 1.00 / 2.00 / n/a | 2.00 |\n", " | 53.00 | 1.00 / 52.00 / n/a | 42.00 |\n",
		"## Connections by region and endpoint\n\nMedian and p99 in ms.\n\n" +
			"| Stage | From region | To | Connect (DNS, TCP, TLS) | Round trip |\n|:-:|:-:|:-:|:-:|:-:|\n" +
			stage + "eu | http://one | 3.00, 3.00\\* | 2.00, 2.00\\* |\n" + stage + "us | http://two | 53.00, 53.00\\* | 42.00, 42.00\\* |\n",
		"| a | eu | host-a | v1 | 1 | 20 | 0 | 0.31 ms late ± 0.08 ms |  |\n",
		"| b | us | host-b | v1 | 1 | 10 | 0 | n/a | stage 1: 25 % of the load missing from second 1 on |\n",
	} {
		if !strings.Contains(files["report.md"], want) {
			t.Errorf("no %q in\n%s", want, files["report.md"])
		}
	}
	if want := "Stage 1: Dynamo 3P1D, 100:4, concurrency 1 (PARTIAL)\nSUSPECT: " + lostLine +
		"\nFew values: "; !strings.HasPrefix(files["vllm.txt"], want) {
		t.Errorf("vllm.txt begins\n%s", files["vllm.txt"][:200])
	}
	if strings.Contains(files["report.md"], "## Start\n") {
		t.Error("a spread of one start")
	}
}

func TestTerminalSaysWhatWasLost(t *testing.T) {
	result, err := Write(distributedDir(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Table(&b, result, 100); err != nil {
		t.Fatal(err)
	}
	if want := "! concurrency 1: PARTIAL: " + lostLine +
		"; "; !strings.Contains(strings.ReplaceAll(b.String(), "\n  ", " "), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// Of a lost agent, there are the rows of the requests that the result counts.
func TestRowsOfSeveralRegions(t *testing.T) {
	rows := jsonRows(t, written(t, distributedDir(t))["requests.jsonl"])
	counts := make(map[string]int)
	for _, row := range rows {
		counts[row.Agent]++
	}
	if counts["a"] != 20 || counts["b"] != 10 {
		t.Errorf("rows by agent: %v", counts)
	}
}

// A run on one machine has no tables by region.
func TestReportOfOneMachine(t *testing.T) {
	stage := results.StageResult{
		Regions: []results.RegionResult{{Agents: 1,
			Contribution: results.Contribution{Paths: []results.PathResult{{RTT: distribution(1, 1, 1)}}}}},
		Endpoints: make([]results.EndpointResult, 1),
	}
	var b strings.Builder
	if err := writeMarkdown(&b, &results.Result{Stages: []results.StageResult{stage}}); err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"## Regions", "## Connections", "## Start", "was restarted"} {
		if strings.Contains(b.String(), section) {
			t.Errorf("%s in\n%s", section, b.String())
		}
	}
}

func TestStartOfSeveralAgents(t *testing.T) {
	for _, c := range []struct {
		startError, uncertainty *float64
		want                    string
	}{
		{new(0.312), new(0.05), "0.31 ms late ± 0.05 ms"}, {new(-1.5), new(0.2), "1.50 ms early ± 0.20 ms"},
		{nil, nil, "n/a"},
	} {
		if got := startWords(c.startError, c.uncertainty); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	got := written(t, runDir(t, "", inOrder))["report.md"]
	if want := "## Start\n\n| Stage | Last agent's start - first agent's (ms) | First | Last |\n|:-:|:-:|:-:|:-:|\n| 1: Dynamo 3P1D, 100:4, concurrency 1 | 0.00 ± 0.16 | a | a |\n"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	summary := &agentSummary{}
	summary.add(results.StageResult{Index: 3}, results.AgentResult{JoinedS: new(16.0), Failure: new("broke")})
	if notes := strings.Join(summary.notes, "; "); notes != "stage 4: joined at second 16; stage 4: broke" {
		t.Errorf("notes %q", notes)
	}
}

// The notes on an agent that stalled say from which second on it did not send due requests.
func TestNotesOnAnAgentThatStoodStill(t *testing.T) {
	part := results.AgentResult{Loss: &results.Loss{Share: 0.3, FromS: 13, UnsentFromS: new(1.0)},
		NeverSent: new(uint64(255))}
	const want = "30 % of the load missing from second 13 on; 255 requests never sent, due from second 1 on"
	if got := missing(part); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
