package clustercmd

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/internal/cli/clienttest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestNamed(t *testing.T) {
	runs := []*spatev1.RunSummary{
		clienttest.Summary("b-2", spatev1.RunState_RUN_STATE_WAITING),
		clienttest.Summary("b-1", spatev1.RunState_RUN_STATE_RUNNING),
		clienttest.Summary("a-1", spatev1.RunState_RUN_STATE_ENDED),
		clienttest.Summary("a-11", spatev1.RunState_RUN_STATE_ENDED),
	}
	for name, want := range map[string]string{
		"latest": "b-2", "b-1": "b-1", "a-1": "a-1", "a-11": "a-11",
		"b":   `2 runs start with "b": b-2, b-1; give more of the id`,
		"c":   `there is no run "c"; the newest are b-2, b-1, a-1 and 1 more`,
		"":    `there is no run ""; the newest are b-2, b-1, a-1 and 1 more`,
		"a-":  `2 runs start with "a-": a-1, a-11; give more of the id`,
		"b-2": "b-2",
	} {
		got, err := named(runs, name)
		said := got.GetRunId()
		if err != nil {
			said = err.Error()
		}
		if said != want {
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
