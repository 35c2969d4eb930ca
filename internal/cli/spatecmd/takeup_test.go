package spatecmd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Short names for values in the tests.
const (
	isWaiting = spatev1.RunState_RUN_STATE_WAITING
	isRunning = spatev1.RunState_RUN_STATE_RUNNING
	hasEnded  = spatev1.RunState_RUN_STATE_ENDED
	isBroken  = spatev1.RunState_RUN_STATE_BROKEN

	wasDone    = spatev1.Outcome_OUTCOME_DONE
	wasStopped = spatev1.Outcome_OUTCOME_STOPPED
	hasFailed  = spatev1.Outcome_OUTCOME_FAILED
)

func TestNamed(t *testing.T) {
	runs := []*spatev1.RunSummary{summary("b-2", isWaiting), summary("b-1", isRunning), summary("a-1", hasEnded),
		summary("a-11", hasEnded)}
	for name, want := range map[string]string{
		"latest": "b-2", "b-1": "b-1", "a-1": "a-1", "a-11": "a-11",
		"b":   `2 runs begin with "b": b-2, b-1; give more of the id`,
		"c":   `no run is called "c"; the newest are b-2, b-1, a-1 and 1 more`,
		"":    `no run is called ""; the newest are b-2, b-1, a-1 and 1 more`,
		"a-":  `2 runs begin with "a-": a-1, a-11; give more of the id`,
		"b-2": "b-2",
	} {
		got, err := named(runs, name)
		if said := got.GetRunId() + errorText(err); said != want {
			t.Errorf("%q: %s, want %s", name, said, want)
		}
	}
	runs[3].SubmitTime = timestamppb.New(time.Unix(2000, 0)) // runs that have ended are listed by their end
	if got, _ := named(runs, "latest"); got.GetRunId() != "a-11" {
		t.Errorf("the latest is %s", got.GetRunId())
	}
	if _, err := named(nil, "latest"); err == nil {
		t.Error("there is a latest run of none")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ofAllKinds returns runs in every state.
func ofAllKinds() []*spatev1.RunSummary {
	at := func(second int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(second, 0)) }
	waiting := summary("quick-3", isWaiting)
	waiting.SubmitTime, waiting.Plan = at(2000), "quick"
	running := summary("quick-2", isRunning)
	running.SubmitTime, running.BeginTime, running.StagesEnded, running.Submitter = at(1000), at(1000), 2, "me"
	done := summary("quick-1", hasEnded)
	done.BeginTime, done.EndTime, done.Outcome, done.Complete, done.StagesEnded = at(100), at(225), wasDone, true, 4
	done.Verdict = "SUSPECT"
	partial := summary("quick-0", hasEnded)
	partial.BeginTime, partial.EndTime, partial.Outcome, partial.StagesEnded = at(100), at(160), wasDone, 4
	failed := summary("old-2", hasEnded)
	failed.BeginTime, failed.EndTime, failed.Outcome, failed.Reason = at(100), at(101), hasFailed, "agent a was lost"
	return []*spatev1.RunSummary{waiting, running, done, partial, failed, summary("old-1", isBroken)}
}

func TestRunsTable(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	var out strings.Builder
	if err := writeRuns(&out, ofAllKinds(), time.Unix(1090, 5e8)); err != nil {
		t.Fatal(err)
	}
	const want = `RUN      STATE       BEGAN              TIME  STAGES  VERDICT  BY
quick-3  waiting     n/a                 n/a     0/4  n/a      n/a
quick-2  running     1970-01-01 00:16  1m31s     2/4  n/a      me
quick-1  done        1970-01-01 00:01   2m5s     4/4  SUSPECT  n/a
quick-0  incomplete  1970-01-01 00:01     1m     4/4  n/a      n/a
old-2    failed      1970-01-01 00:01     1s     0/4  n/a      n/a
old-1    broken      n/a                 n/a     0/4  n/a      n/a
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestNarrowTables(t *testing.T) {
	for width, want := range map[int]string{0: "a  bb  ccc", 10: "a  bb  ccc", 9: "a  bb", 1: "a  bb"} {
		x := &table{}
		x.row("a", "bb", "ccc")
		x.narrow(width)
		var out strings.Builder
		if err := x.write(&out); err != nil || out.String() != want+"\n" {
			t.Errorf("at %d columns %q, %v", width, out.String(), err)
		}
	}
}

func TestRunsCommand(t *testing.T) {
	service := &fakeService{}
	address, _ := service.serve(t, "127.0.0.1:0")
	if code, out, _ := spate(t, "runs", "--coordinator", address); code != exitDone ||
		!strings.HasPrefix(out, "No runs. Submit one with: ") {
		t.Errorf("code %d, %s", code, out)
	}
	if code, out, _ := spate(t, "runs", "--coordinator", address, "--output", "json"); code != exitDone ||
		out != "[]\n" {
		t.Errorf("code %d, %s", code, out)
	}
	service.set(func() { service.runs = ofAllKinds() })
	code, out, _ := spate(t, "runs", "--coordinator", address, "--output", "json", "--limit", "5")
	var list []map[string]any
	if err := json.Unmarshal([]byte(out), &list); code != exitDone || err != nil || len(list) != 5 {
		t.Fatalf("code %d, %v, %s", code, err, out)
	}
	for i, want := range []string{
		`{"begin_time":null,"complete":null,"duration_seconds":null,"end_time":null,"id":"quick-3","outcome":null,"plan":"quick","reason":null,"stages_ended":0,"stages_planned":4,"state":"waiting","submit_time":"1970-01-01T00:33:20Z","submitter":null,"verdict":null}`,
		`{"begin_time":"1970-01-01T00:16:40Z","complete":null,"duration_seconds":null,"end_time":null,"id":"quick-2","outcome":null,"plan":null,"reason":null,"stages_ended":2,"stages_planned":4,"state":"running","submit_time":"1970-01-01T00:16:40Z","submitter":"me","verdict":null}`,
		`{"begin_time":"1970-01-01T00:01:40Z","complete":true,"duration_seconds":125,"end_time":"1970-01-01T00:03:45Z","id":"quick-1","outcome":"done","plan":null,"reason":null,"stages_ended":4,"stages_planned":4,"state":"ended","submit_time":null,"submitter":null,"verdict":"SUSPECT"}`,
	} {
		if got, err := json.Marshal(list[i]); err != nil || string(got) != want {
			t.Errorf("run %d: %s, want %s", i, got, want)
		}
	}
	if code, _, said := spate(t, "runs", "--coordinator", address, "--output", "xml"); code != exitInput ||
		!strings.Contains(said, `--output "xml": want table or json`) {
		t.Errorf("code %d, %s", code, said)
	}
}

func TestStopCommand(t *testing.T) {
	service := &fakeService{runs: ofAllKinds()}
	address, _ := service.serve(t, "127.0.0.1:0")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"latest"}, exitDone, "run quick-3 is out of the queue\n"},
		{[]string{"quick-2"}, exitDone, "run quick-2 starts no more requests; those in flight are awaited\n"},
		{[]string{"quick-2", "--now"}, exitDone,
			"run quick-2 starts no more requests; those in flight are cancelled\n"},
		{[]string{"quick-1"}, exitInput, "spate: run quick-1 does not go on (done): there is nothing to stop\n"},
		{[]string{"old-1"}, exitInput, "spate: run old-1 does not go on (broken): there is nothing to stop\n"},
		{[]string{"quick"}, exitInput,
			"spate: 4 runs begin with \"quick\": quick-3, quick-2, quick-1 and 1 more; give more of the id\n"},
	} {
		code, out, said := spate(t, append([]string{"stop", "--coordinator", address}, test.args...)...)
		if code != test.code || out+said != test.want {
			t.Errorf("%v: code %d, %s%s", test.args, code, out, said)
		}
	}
	if n := len(service.stopped); n != 3 || service.stopped[0].GetRunId() != "quick-3" ||
		service.stopped[1].GetImmediately() || !service.stopped[2].GetImmediately() {
		t.Errorf("stopped %v", service.stopped)
	}
}

func TestFetchCommand(t *testing.T) {
	for name, test := range map[string]struct {
		outcome spatev1.Outcome
		code    int
		want    string
	}{
		"done":    {wasDone, exitDone, ""},
		"failed":  {hasFailed, exitFailed, "the run did not reach its end: because"},
		"stopped": {wasStopped, exitStopped, "the run did not reach its end: because"},
		"broken":  {0, exitFailed, "the run did not reach its end: its coordinator died"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			reason := ""
			if strings.Contains(test.want, "because") {
				reason = "because"
			}
			run := summary("r", hasEnded)
			run.BeginTime = timestamppb.New(time.Unix(100, 0))
			service := &fakeService{runs: []*spatev1.RunSummary{run}, ledger: ledgerOf(t, test.outcome, reason)}
			address, _ := service.serve(t, "127.0.0.1:0")
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
	service := &fakeService{runs: ofAllKinds()}
	address, _ := service.serve(t, "127.0.0.1:0")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"fetch", "quick-2"}, exitInput,
			"run quick-2 goes on (running): spate follow quick-2 gets its results"},
		{[]string{"fetch", "nothing"}, exitInput, `no run is called "nothing"`},
		{[]string{"follow", "quick-2", "--no-fetch", "--out", "x"}, exitInput, "--out does not go with --no-fetch"},
		{[]string{"follow", "quick-2", "--patience", "-1s"}, exitInput, "--patience -1s: want at least 0"},
		{[]string{"fetch", "old-2"}, exitFault, "there is no run old-2 here"},
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
	out, lost := summary("out", hasEnded), summary("lost", hasEnded)
	out.Outcome, out.Reason = wasStopped, "stopped on request before it began"
	lost.Outcome, lost.Reason = hasFailed, "its secrets are gone: submit it again"
	address, _ := (&fakeService{runs: []*spatev1.RunSummary{out, lost}}).serve(t, "127.0.0.1:0")
	for _, run := range []struct {
		*spatev1.RunSummary
		code int
	}{{out, exitStopped}, {lost, exitFailed}} {
		for _, command := range []string{"fetch", "follow"} {
			code, printed, said := spate(t, command, run.GetRunId(), "--coordinator", address)
			want := "spate: the run never began, and has no results: " + run.GetReason() + "\n"
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
	service := &fakeService{waiting: 2}
	address, _ := service.serve(t, "127.0.0.1:0")
	code, out, said := spate(t, "run", "--coordinator", address, "--detach", "--target", "http://127.0.0.1:1",
		"--model", "m", "--concurrency", "1")
	want := "The run waits: 2 runs come before it.\nTo follow it and get its results: spate follow new-run --coordinator " + address +
		"\nTo end it: spate stop new-run --coordinator " + address + "\n"
	if code != exitDone || out != "new-run\n" || !strings.HasSuffix(said, want) ||
		!strings.HasPrefix(said, "# The plan made from the flags:") {
		t.Errorf("code %d\n%s\n%s", code, out, said)
	}
	if len(service.submits) != 1 || len(service.asked) != 0 {
		t.Errorf("%d runs submitted, %d followed", len(service.submits), len(service.asked))
	}
	for _, test := range [][]string{
		{"--detach goes with --coordinator only", "quickstart"},
		{"--out does not go with --detach", "quickstart", "--coordinator", address, "--out", "x"},
		{"start `spate simulate`", "quickstart", "--coordinator", address},
	} {
		if code, _, said := spate(t, append([]string{"run", "--detach"}, test[1:]...)...); code != exitInput ||
			!strings.Contains(said, test[0]) {
			t.Errorf("%v: code %d, %s", test, code, said)
		}
	}
}

// TestFollowCommand: live events, then the results, and the exit code of the run.
func TestFollowCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	service := &fakeService{
		runs: []*spatev1.RunSummary{summary("r", isRunning)}, ledger: ledgerOf(t, wasStopped, ""),
		events: append(events()[:4], ended(wasStopped, false)), cut: []int{2},
	}
	address, _ := service.serve(t, "127.0.0.1:0")
	code, out, said := spate(t, "follow", "latest", "--coordinator", address)
	if code != exitStopped || !strings.Contains(out, "Run directory: runs/r\n") ||
		strings.Count(said, "coordinator gone (the cable was cut)") != 1 {
		t.Errorf("code %d\n%s\n%s", code, out, said)
	}
	code, out, said = spate(t, "follow", "latest", "--coordinator", address, "--no-fetch")
	if code != exitStopped || out != "Run r: stopped\n" || !strings.HasPrefix(said, "2 stages on 2 agents") {
		t.Errorf("code %d\n%s\n%s", code, out, said)
	}
}
