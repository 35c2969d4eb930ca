package runcmd

import (
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestStopCommand(t *testing.T) {
	service := &clienttest.FakeService{Runs: clienttest.OfAllKinds()}
	address, _ := service.Serve(t, "127.0.0.1:0")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"latest"}, command.ExitDone, "run quick-3 was removed from the queue\n"},
		{[]string{"quick-2"}, command.ExitDone, "run quick-2 starts no more requests and waits for those in flight\n"},
		{[]string{"quick-2", "--now"}, command.ExitDone,
			"run quick-2 starts no more requests and cancels those in flight\n"},
		{[]string{"quick-1"}, command.ExitInput, "spate: run quick-1 is not running (done): there is nothing to stop\n"},
		{[]string{"old-1"}, command.ExitInput, "spate: run old-1 is not running (broken): there is nothing to stop\n"},
		{[]string{"quick"}, command.ExitInput,
			"spate: 4 runs start with \"quick\": quick-3, quick-2, quick-1 and 1 more; give more of the id\n"},
	} {
		code, out, said := spate(t, append([]string{"stop", "--coordinator", address}, test.args...)...)
		if code != test.code || out+said != test.want {
			t.Errorf("%v: code %d, %s%s", test.args, code, out, said)
		}
	}
	if n := len(service.Stopped); n != 3 || service.Stopped[0].GetRunId() != "quick-3" ||
		service.Stopped[1].GetImmediately() || !service.Stopped[2].GetImmediately() {
		t.Errorf("stopped %v", service.Stopped)
	}
}

// All runs that have not ended are stopped, those that wait first, so that none begins.
func TestStopAll(t *testing.T) {
	service := &clienttest.FakeService{Runs: clienttest.OfAllKinds()}
	address, _ := service.Serve(t, "127.0.0.1:0")
	code, out, said := spate(t, "stop", "--all", "--coordinator", address)
	if code != command.ExitDone || out != "run quick-3 was removed from the queue\n"+
		"run quick-2 starts no more requests and waits for those in flight\n" || len(service.Stopped) != 2 {
		t.Errorf("code %d, %s%s", code, out, said)
	}
	for _, test := range [][]string{{"accepts 0 arg", "latest"}, {"name one run"}} {
		args := append([]string{"stop", "--coordinator", address}, test[1:]...)
		if len(test) > 1 {
			args = append(args, "--all")
		}
		if code, _, said := spate(t, args...); code != command.ExitInput {
			t.Errorf("%v: code %d, %s", args, code, said)
		}
	}
	service.Set(func() { service.Runs = nil })
	if code, out, _ := spate(t, "stop", "--all", "--coordinator", address); code != command.ExitDone ||
		out != "no run waits or is in progress\n" {
		t.Errorf("code %d, %s", code, out)
	}
}

func TestFetchCommand(t *testing.T) {
	for name, test := range map[string]struct {
		outcome spatev1.Outcome
		code    int
		want    string
	}{
		"done":    {clienttest.WasDone, command.ExitDone, ""},
		"failed":  {clienttest.HasFailed, command.ExitFailed, "the run ended early: because"},
		"stopped": {clienttest.WasStopped, command.ExitStopped, "the run ended early: because"},
		"broken":  {0, command.ExitFailed, "the run ended early: its coordinator was lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			reason := ""
			if strings.Contains(test.want, "because") {
				reason = "because"
			}
			run := clienttest.Summary("r", clienttest.HasEnded)
			run.BeginTime = timestamppb.New(time.Unix(100, 0))
			service := &clienttest.FakeService{
				Runs:   []*spatev1.RunSummary{run},
				Ledger: clienttest.LedgerOf(t, test.outcome, reason),
			}
			address, _ := service.Serve(t, "127.0.0.1:0")
			for _, args := range [][]string{{"fetch", "latest"}, {"follow", "r", "--out", "again"}} {
				code, out, said := spate(t, append(args, "--coordinator", address)...)
				if code != test.code || !strings.Contains(said, test.want) ||
					!strings.Contains(out, "Run directory: ") {
					t.Errorf("%v: code %d\n%s\n%s", args, code, out, said)
				}
			}
			for _, file := range []string{"runs/r/ledger.db", "runs/r/results.json", "again/report.md"} {
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestFetchRefuses: nothing is made of a run that is in progress or does not exist.
func TestFetchRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	service := &clienttest.FakeService{Runs: clienttest.OfAllKinds()}
	address, _ := service.Serve(t, "127.0.0.1:0")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"fetch", "quick-2"}, command.ExitInput,
			"run quick-2 has not ended (running): spate runs follow quick-2 gets its results"},
		{[]string{"fetch", "nothing"}, command.ExitInput, `there is no run "nothing"`},
		{[]string{"follow", "quick-2", "--patience", "-1s"}, command.ExitInput, "--patience -1s: want at least 0"},
		{[]string{"fetch", "old-2"}, command.ExitFault, "there is no run old-2 here"},
	} {
		code, out, said := spate(t, append(test.args, "--coordinator", address)...)
		if code != test.code || !strings.Contains(said, test.want) || out != "" {
			t.Errorf("%v: code %d, %s%s", test.args, code, out, said)
		}
	}
	if _, err := os.Stat("runs/quick-2"); err == nil {
		t.Error("a directory was made")
	}
}

// TestNothingOfARunThatNeverBegan: such a run has no results, and still has its own exit code.
func TestNothingOfARunThatNeverBegan(t *testing.T) {
	t.Chdir(t.TempDir())
	out, lost := clienttest.Summary("out", clienttest.HasEnded), clienttest.Summary("lost", clienttest.HasEnded)
	out.Outcome, out.Reason = clienttest.WasStopped, "stopped on request before it began"
	lost.Outcome, lost.Reason = clienttest.HasFailed, "its secrets are gone: submit it again"
	address, _ := (&clienttest.FakeService{Runs: []*spatev1.RunSummary{out, lost}}).Serve(t, "127.0.0.1:0")
	for _, run := range []struct {
		*spatev1.RunSummary
		code int
	}{{out, command.ExitStopped}, {lost, command.ExitFailed}} {
		for _, command := range []string{"fetch", "follow"} {
			code, printed, said := spate(t, command, run.GetRunId(), "--coordinator", address)
			want := "spate: the run never started, and has no results: " + run.GetReason() + "\n"
			if code != run.code || !strings.HasPrefix(printed, "Run "+run.GetRunId()+": ") || said != want {
				t.Errorf("%s %s: code %d, %s%s", command, run.GetRunId(), code, printed, said)
			}
		}
	}
	if _, err := os.Stat("runs"); err == nil {
		t.Error("a directory was made")
	}
}

// TestDetach: only the ID goes to standard output.
func TestDetach(t *testing.T) {
	t.Chdir(t.TempDir())
	service := &clienttest.FakeService{Waiting: 2}
	address, _ := service.Serve(t, "127.0.0.1:0")
	code, out, said := spate(t, "run", "--coordinator", address, "--detach", "--target", "http://127.0.0.1:1",
		"--model", "m", "--concurrency", "1")
	want := "The run waits: it is number 2 in the queue.\nTo follow it and get its results: spate runs follow new-run --coordinator " + address +
		"\nTo stop it: spate runs stop new-run --coordinator " + address + "\n"
	if code != command.ExitDone || out != "new-run\n" || said != want {
		t.Errorf("code %d\n%s\n%s", code, out, said)
	}
	if len(service.Submits) != 1 || len(service.Asked) != 0 {
		t.Errorf("%d runs submitted, %d followed", len(service.Submits), len(service.Asked))
	}
	for _, test := range [][]string{
		{"--detach needs --coordinator", "quickstart"},
		{"--out and --detach exclude one another", "quickstart", "--coordinator", address, "--out", "x"},
		{"start `spate simulate`", "quickstart", "--coordinator", address},
	} {
		if code, _, said := spate(t, append([]string{"run", "--detach"}, test[1:]...)...); code != command.ExitInput ||
			!strings.Contains(said, test[0]) {
			t.Errorf("%v: code %d, %s", test, code, said)
		}
	}
}

// TestFollowCommand: live events, then the results, and the exit code of the run.
func TestFollowCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	service := &clienttest.FakeService{
		Runs: []*spatev1.RunSummary{
			clienttest.Summary("r", clienttest.IsRunning),
		}, Ledger: clienttest.LedgerOf(t, clienttest.WasStopped, ""),
		Events: append(clienttest.Events()[:4], clienttest.Ended(clienttest.WasStopped, false)), Cut: []int{2},
	}
	address, _ := service.Serve(t, "127.0.0.1:0")
	code, out, said := spate(t, "follow", "latest", "--coordinator", address)
	if code != command.ExitStopped || !strings.Contains(out, "Run directory: runs/r\n") ||
		strings.Count(said, "coordinator gone (the cable was cut)") != 1 {
		t.Errorf("code %d\n%s\n%s", code, out, said)
	}
}

// spate runs a command line of the commands about runs.
func spate(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clienttest.Run(t, []*cobra.Command{NewRun("v"), NewFollow(), NewFetch(), NewStop()}, args...)
}
