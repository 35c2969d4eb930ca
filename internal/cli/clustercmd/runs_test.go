package clustercmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestRunsTable(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	var out strings.Builder
	if err := writeRuns(&out, clienttest.OfAllKinds(), false, time.Unix(1090, 5e8)); err != nil {
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
	out.Reset()
	if err := writeRuns(&out, clienttest.OfAllKinds()[1:5:5], true, time.Unix(1090, 5e8)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"VERDICT  BY   FROM      SUBMITTED            PRIORITY  PLAN  STOPPED BY  REASON\n",
		"me   10.0.0.7  1970-01-01 00:16:40         0  n/a   n/a         n/a\n", "agent a was lost\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwithout %s", out.String(), want)
		}
	}
}

// The ledger of a run that another process writes cannot be read: the list says that it is in progress.
func TestARunOfAnotherProcessIsInProgress(t *testing.T) {
	runs := []*spatev1.RunSummary{{RunId: "a", State: spatev1.RunState_RUN_STATE_RUNNING}}
	var out strings.Builder
	if err := writeRuns(&out, runs, false, time.Unix(0, 0)); err != nil || !strings.Contains(out.String(), "  in progress  ") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A list with runs that wait says how long, for which run, and at length why.
func TestRunsThatWait(t *testing.T) {
	runs := clienttest.OfAllKinds()[:2]
	runs[0].Place, runs[0].Priority, runs[0].Wait = 1, 5, durationpb.New(90*time.Second)
	runs[0].WaitsFor, runs[0].WaitsBecause = []string{"quick-2", "quick-1"}, "agents that it needs belong to others"
	for long, want := range map[bool][]string{
		false: {"WAITS  FOR\n", "~1m30s  quick-2 and 1 more\n", "n/a  n/a\n"},
		true:  {"quick-2 and 1 more", "         5  quick  n/a         agents that it needs belong to others\n"},
	} {
		var out strings.Builder
		if err := writeRuns(&out, runs, long, time.Unix(1090, 5e8)); err != nil {
			t.Fatal(err)
		}
		for _, want := range want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("long %v: got\n%s\nwithout %q", long, out.String(), want)
			}
		}
	}
	list, err := json.Marshal(runsAsJSON(runs)[0])
	if want := `"priority":5,"place":1,"waits_for":["quick-2","quick-1"],"waits_because":"agents that it needs ` +
		`belong to others","wait_seconds":90`; err != nil || !strings.Contains(string(list), want) {
		t.Errorf("%s, %v", list, err)
	}
}

func TestRunsCommand(t *testing.T) {
	service := &clienttest.FakeService{}
	address, _ := service.Serve(t, "127.0.0.1:0")
	if code, out, _ := clienttest.Run(t, []*cobra.Command{NewRuns()}, "runs", "--coordinator", address); code != command.ExitDone ||
		!strings.HasPrefix(out, "No runs. Submit one with: ") {
		t.Errorf("code %d, %s", code, out)
	}
	if code, out, _ := clienttest.Run(t, []*cobra.Command{NewRuns()}, "runs", "--coordinator", address, "--output", "json"); code != command.ExitDone ||
		out != "[]\n" {
		t.Errorf("code %d, %s", code, out)
	}
	service.Set(func() { service.Runs = clienttest.OfAllKinds() })
	code, out, _ := clienttest.Run(
		t,
		[]*cobra.Command{NewRuns()},
		"runs",
		"--coordinator",
		address,
		"--output",
		"json",
		"--limit",
		"5",
	)
	var list []map[string]any
	if err := json.Unmarshal([]byte(out), &list); code != command.ExitDone || err != nil || len(list) != 5 {
		t.Fatalf("code %d, %v, %s", code, err, out)
	}
	for i, want := range []string{
		`{"begin_time":null,"complete":null,"duration_seconds":null,"end_time":null,"id":"quick-3","outcome":null,"place":null,"plan":"quick","priority":0,"reason":null,"stages_ended":0,"stages_planned":4,"state":"waiting","stopper":null,"submit_time":"1970-01-01T00:33:20Z","submitter":null,"submitter_address":null,"verdict":null,"wait_seconds":null,"waits_because":null,"waits_for":null}`,
		`{"begin_time":"1970-01-01T00:16:40Z","complete":null,"duration_seconds":null,"end_time":null,"id":"quick-2","outcome":null,"place":null,"plan":null,"priority":0,"reason":null,"stages_ended":2,"stages_planned":4,"state":"running","stopper":null,"submit_time":"1970-01-01T00:16:40Z","submitter":"me","submitter_address":"10.0.0.7","verdict":null,"wait_seconds":null,"waits_because":null,"waits_for":null}`,
		`{"begin_time":"1970-01-01T00:01:40Z","complete":true,"duration_seconds":125,"end_time":"1970-01-01T00:03:45Z","id":"quick-1","outcome":"done","place":null,"plan":null,"priority":0,"reason":null,"stages_ended":4,"stages_planned":4,"state":"ended","stopper":null,"submit_time":null,"submitter":null,"submitter_address":null,"verdict":"SUSPECT","wait_seconds":null,"waits_because":null,"waits_for":null}`,
	} {
		if got, err := json.Marshal(list[i]); err != nil || string(got) != want {
			t.Errorf("run %d: %s, want %s", i, got, want)
		}
	}
}

func TestDatasetsTable(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	items := []files.Item{
		{Name: "0123456789abcdef0123", Bytes: 3 << 20, Used: time.Unix(60, 0)},
		{Name: "fedcba9876543210fedc", Bytes: 1 << 20, Used: time.Unix(0, 0)},
	}
	var out strings.Builder
	for _, listed := range [][]files.Item{items, nil} {
		if err := writeDatasets(&out, listed); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.ReplaceAll(`DATASET              SIZE  USED
0123456789abcdef  3.0 MiB  1970-01-01 00:01
fedcba9876543210  1.0 MiB  1970-01-01 00:00

2 datasets, 4.0 MiB, in CACHE
No datasets in CACHE.
`, "CACHE", command.DatasetDir())
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
