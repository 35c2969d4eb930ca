package clustercmd

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/command"
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

// A list with runs that wait says for which run, and at length why.
func TestRunsThatWait(t *testing.T) {
	runs := clienttest.OfAllKinds()[:2]
	runs[0].Place, runs[0].Priority = 1, 5
	runs[0].WaitsFor, runs[0].WaitsBecause = []string{"quick-2", "quick-1"}, "agents that it needs belong to others"
	for long, want := range map[bool][]string{
		false: {"WAITS FOR\n", "quick-2 and 1 more\n"},
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
}

func TestRunsCommand(t *testing.T) {
	service := &clienttest.FakeService{}
	address, _ := service.Serve(t, "127.0.0.1:0")
	if code, out, _ := clienttest.Run(t, []*cobra.Command{NewRuns()}, "runs", "--coordinator", address); code != command.ExitDone ||
		!strings.HasPrefix(out, "No runs. Submit one with: ") {
		t.Errorf("code %d, %s", code, out)
	}
	if code, out, _ := clienttest.Run(t, []*cobra.Command{NewRuns()}, "runs", "--coordinator", address, "--output", "json"); code != command.ExitDone ||
		strings.Join(strings.Fields(out), "") != `{"runs":[]}` {
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
	var list spatev1.ListRunsResponse
	if err := protojson.Unmarshal([]byte(out), &list); code != command.ExitDone || err != nil ||
		!proto.Equal(&list, &spatev1.ListRunsResponse{Runs: clienttest.OfAllKinds()[:5]}) {
		t.Errorf("code %d, %v, %s", code, err, out)
	}
}
