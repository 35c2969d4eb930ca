package spatecmd

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
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
		{wasDone, true, "VALID", "invalid", exitDone, "done"},
		{wasDone, true, "", "suspect", exitDone, "done"},
		{wasDone, true, "SUSPECT", "invalid", exitDone, "done"},
		{wasDone, true, "SUSPECT", "suspect", exitFailed, "done"},
		{wasDone, true, "INVALID", "invalid", exitFailed, "done"},
		{wasDone, true, "INVALID", "suspect", exitFailed, "done"},
		{wasDone, true, "INVALID", "never", exitDone, "done"},
		{wasDone, false, "VALID", "never", exitFailed, "incomplete"},
		{hasFailed, false, "VALID", "never", exitFailed, "failed"},
		{wasStopped, false, "INVALID", "invalid", exitStopped, "stopped"},
		{0, false, "", "invalid", exitFailed, "broken"},
	} {
		ended := &spatev1.RunEnded{Outcome: tc.outcome, Complete: tc.complete, Verdict: tc.verdict}
		summary := &spatev1.RunSummary{Outcome: tc.outcome, Complete: tc.complete, Verdict: tc.verdict}
		result := &aggregate.Result{Run: aggregate.RunResult{Complete: tc.complete}}
		if word := outcomeWords(tc.outcome); tc.outcome != 0 {
			result.Run.Outcome = &word
		}
		if v := trust.Verdict(tc.verdict); v != "" {
			result.Run.Verdict = &v
		}
		for way, e := range map[string]ending{"event": {RunEnded: ended}, "list": summaryEnding(summary),
			"results": resultEnding(result)} {
			if code, why := e.judge(tc.fail); code != tc.code || (why == "") != (code == exitDone) ||
				e.state() != tc.state {
				t.Errorf("%+v by its %s: code %d, %s, %q", tc, way, code, e.state(), why)
			}
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
		"done":       {wasDone, true, "", exitDone, "Run r: done\n"},
		"failed":     {hasFailed, false, "because", exitFailed, "Run r: failed\n"},
		"stopped":    {wasStopped, false, "because", exitStopped, "Run r: stopped\n"},
		"incomplete": {wasDone, false, "", exitFailed, "Run r: incomplete\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			end := ended(tc.outcome, tc.complete)
			end.GetRunEnded().Reason = tc.reason
			going, over := summary("r", isRunning), summary("r", hasEnded)
			over.BeginTime, over.Outcome, over.Complete, over.Reason = timestamppb.New(time.Unix(1000, 0)), tc.outcome,
				tc.complete, tc.reason
			ledger := ledgerOf(t, tc.outcome, tc.reason, func(r *spatev1.RunRecord) {
				if tc.outcome == wasDone && !tc.complete {
					r.Stages = 1 // and there is none
				}
			})
			service := &fakeService{ledger: ledger, events: append(events()[:4], end)}
			address, _ := service.serve(t, "127.0.0.1:0")
			for i, args := range [][]string{{"follow", "r"}, {"follow", "r", "--no-fetch"}, {"fetch", "r"},
				{"follow", "r"}, {"follow", "r", "--no-fetch"}} {
				service.set(func() { service.runs = []*spatev1.RunSummary{going} })
				if i >= 2 {
					service.set(func() { service.runs = []*spatev1.RunSummary{over} })
				}
				code, out, said := spate(t, append(args, "--coordinator", address)...)
				if code != tc.code || !strings.Contains(out, tc.line) || strings.Contains(said, "nothing was started") {
					t.Errorf("%v of %s: code %d\n%s%s", args, stateWords(service.runs[0]), code, out, said)
				}
				if tc.reason != "" && !strings.Contains(said, "spate: the run did not reach its end: "+tc.reason) {
					t.Errorf("%v: the reason is not said: %s", args, said)
				}
			}
		})
	}
}
