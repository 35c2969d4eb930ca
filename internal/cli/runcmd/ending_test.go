package runcmd

import (
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// TestJudge: exit codes are those of the table in `spate help exit-codes`, however the end is learned.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		outcome  spatev1.Outcome
		complete bool
		verdict  string
		fail     failOn
		code     int
		state    string
	}{
		{clienttest.WasDone, true, "VALID", "invalid", command.ExitDone, "done"},
		{clienttest.WasDone, true, "", "suspect", command.ExitDone, "done"},
		{clienttest.WasDone, true, "SUSPECT", "invalid", command.ExitDone, "done"},
		{clienttest.WasDone, true, "SUSPECT", "suspect", command.ExitFailed, "done"},
		{clienttest.WasDone, true, "INVALID", "invalid", command.ExitFailed, "done"},
		{clienttest.WasDone, true, "INVALID", "suspect", command.ExitFailed, "done"},
		{clienttest.WasDone, true, "INVALID", "never", command.ExitDone, "done"},
		{clienttest.WasDone, false, "VALID", "never", command.ExitFailed, "incomplete"},
		{clienttest.HasFailed, false, "VALID", "never", command.ExitFailed, "failed"},
		{clienttest.WasStopped, false, "INVALID", "invalid", command.ExitStopped, "stopped"},
		{0, false, "", "invalid", command.ExitFailed, "broken"},
	} {
		ended := &spatev1.RunEnded{Outcome: tc.outcome, Complete: tc.complete, Verdict: tc.verdict}
		summary := &spatev1.RunSummary{Outcome: tc.outcome, Complete: tc.complete, Verdict: tc.verdict}
		result := &results.Result{Run: results.RunResult{Complete: tc.complete}}
		if word := watch.Outcome(tc.outcome); tc.outcome != 0 {
			result.Run.Outcome = &word
		}
		if v := trust.Verdict(tc.verdict); v != "" {
			result.Run.Verdict = &v
		}
		for way, e := range map[string]ending{"event": {RunEnded: ended}, "list": summaryEnding(summary),
			"results": resultEnding(result)} {
			if code, why := e.judge(tc.fail); code != tc.code || (why == "") != (code == command.ExitDone) ||
				e.state() != tc.state {
				t.Errorf("%+v by its %s: code %d, %s, %q", tc, way, code, e.state(), why)
			}
		}
	}
}

// TestThresholdsDecideLast: a failed threshold gives 5 if nothing else is wrong with the run. It does not hide that
// numbers are worse than the baseline's.
func TestThresholdsDecideLast(t *testing.T) {
	for _, tc := range []struct {
		outcome  string
		complete bool
		verdict  trust.Verdict
		passed   bool
		code     int
	}{
		{"done", true, "VALID", true, command.ExitDone},
		{"done", true, "VALID", false, command.ExitMissed},
		{"done", true, "INVALID", false, command.ExitFailed},
		{"done", false, "VALID", false, command.ExitFailed},
		{"stopped", false, "VALID", false, command.ExitStopped},
	} {
		e := resultEnding(&results.Result{
			Run:        results.RunResult{Outcome: &tc.outcome, Complete: tc.complete, Verdict: &tc.verdict},
			Thresholds: []results.Threshold{{That: "a < 1", Passed: true}, {That: "b < 1", Passed: tc.passed}},
		})
		code, why := e.judge("invalid")
		if code != tc.code || strings.Contains(why, "1 of 2 thresholds failed: b < 1") != (code == command.ExitMissed) {
			t.Errorf("%+v: code %d, %s", tc, code, why)
		}
		e.baseline = &baselineResult{fails: "2 numbers worse"}
		if _, why := e.judge("invalid"); !tc.passed && code == command.ExitMissed && !strings.HasSuffix(why, "; 2 numbers worse") {
			t.Errorf("also worse than the baseline, it says: %s", why)
		}
	}
}

// TestOneRuleForTheEnd: following a run live, with or without its results, gives the same exit code, the same last line
// and the same reason as fetching the run after its end.
func TestOneRuleForTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome  spatev1.Outcome
		complete bool
		reason   string
		code     int
		line     string
	}{
		"done":       {clienttest.WasDone, true, "", command.ExitDone, "Run r: done\n"},
		"failed":     {clienttest.HasFailed, false, "because", command.ExitFailed, "Run r: failed\n"},
		"stopped":    {clienttest.WasStopped, false, "because", command.ExitStopped, "Run r: stopped\n"},
		"incomplete": {clienttest.WasDone, false, "", command.ExitFailed, "Run r: incomplete\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			end := clienttest.Ended(tc.outcome, tc.complete)
			end.GetRunEnded().Reason = tc.reason
			going, over := clienttest.Summary("r", clienttest.IsRunning), clienttest.Summary("r", clienttest.HasEnded)
			over.BeginTime, over.Outcome, over.Complete, over.Reason = timestamppb.New(time.Unix(1000, 0)), tc.outcome,
				tc.complete, tc.reason
			ledger := clienttest.LedgerOf(t, tc.outcome, tc.reason, func(r *spatev1.RunRecord) {
				if tc.outcome == clienttest.WasDone && !tc.complete {
					r.Stages = 1 // and there is none
				}
			})
			service := &clienttest.FakeService{Ledger: ledger, Events: append(clienttest.Events()[:4], end)}
			address, _ := service.Serve(t, "127.0.0.1:0")
			for i, args := range [][]string{{"follow", "r"}, {"fetch", "r"}, {"follow", "r"}} {
				service.Set(func() { service.Runs = []*spatev1.RunSummary{going} })
				if i >= 1 {
					service.Set(func() { service.Runs = []*spatev1.RunSummary{over} })
				}
				code, out, said := spate(t, append(args, "--coordinator", address)...)
				if code != tc.code || !strings.Contains(out, tc.line) || strings.Contains(said, "nothing was started") {
					t.Errorf("%v of %s: code %d\n%s%s", args, watch.State(service.Runs[0]), code, out, said)
				}
				if tc.reason != "" && !strings.Contains(said, "spate: the run ended early: "+tc.reason) {
					t.Errorf("%v: the reason is not said: %s", args, said)
				}
			}
		})
	}
}

// A full disk, for example, does not hide how a run ended.
func TestFilesThatCannotBeWritten(t *testing.T) {
	over := clienttest.Summary("r", clienttest.HasEnded)
	over.BeginTime, over.Outcome, over.Complete = timestamppb.New(time.Unix(1000, 0)), clienttest.WasDone, true
	service := &clienttest.FakeService{Ledger: clienttest.LedgerOf(t, clienttest.WasDone, ""),
		Events: append(clienttest.Events()[:4], clienttest.Ended(clienttest.WasDone, true))}
	address, _ := service.Serve(t, "127.0.0.1:0")
	for _, tc := range []struct {
		state *spatev1.RunSummary
		args  []string
		want  string
	}{
		{clienttest.Summary("r", clienttest.IsRunning), []string{"follow", "r"}, "to try again: spate report runs/r"},
		{over, []string{"fetch", "r"}, "to try again: spate report runs/r"},
		{over, []string{"fetch", "r", "--out", "new", "--junit", "runs"}, "open runs: is a directory"},
	} {
		t.Chdir(t.TempDir())
		if err := os.MkdirAll("runs/r/report.md", 0o700); err != nil {
			t.Fatal(err)
		}
		service.Set(func() { service.Runs = []*spatev1.RunSummary{tc.state} })
		code, out, said := spate(t, append(tc.args, "--coordinator", address)...)
		if code != command.ExitFault || !strings.Contains(out, "\nRun r: done\n") || !strings.Contains(said, tc.want) {
			t.Errorf("%v: code %d\n%s%s", tc.args, code, out, said)
		}
	}
}

func TestStateIsColouredByHowBadItIs(t *testing.T) {
	for state, colour := range map[string]string{
		"done": terminal.Green, "done, VALID": terminal.Green, "done, SUSPECT": terminal.Yellow, "done, INVALID": terminal.Red, "failed": terminal.Red,
		"failed, VALID":   terminal.Red,
		"failed, SUSPECT": terminal.Red, "incomplete, VALID": terminal.Red, "stopped, VALID": terminal.Yellow, "broken": terminal.Red,
	} {
		if got, want := colourState(terminal.Palette(true), state), "\x1b["+colour+"m"+state+"\x1b[0m"; got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}
