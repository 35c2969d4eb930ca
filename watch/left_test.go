package watch

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestTimeLeftOfTheRun(t *testing.T) {
	minute := &spatev1.PlannedStage{Stages: 1, Concurrency: 1, Expected: durationpb.New(time.Minute),
		Pause: durationpb.New(10 * time.Second)}
	counted := &spatev1.PlannedStage{Stages: 1, Concurrency: 1, ExpectedRequests: 100}
	other := proto.CloneOf(counted)
	other.Workload = "other"
	timed := &spatev1.StageStarted{Expected: durationpb.New(time.Minute)}
	second := proto.CloneOf(timed)
	second.StageIndex = 1
	for name, c := range map[string]struct {
		left      left
		began     *spatev1.StageStarted
		completed uint64
		want      string
	}{
		"nothing is known":        {left{}, timed, 0, "n/a"},
		"this stage and the next": {left{stages: []*spatev1.PlannedStage{minute, minute}}, timed, 0, "~110"},
		"the last stage":          {left{stages: []*spatev1.PlannedStage{minute, minute}}, second, 0, "~40"},
		"counted, none ended": {left{stages: []*spatev1.PlannedStage{counted}},
			&spatev1.StageStarted{ExpectedRequests: 100}, 0, "n/a"},
		"counted, at the pace": {left{stages: []*spatev1.PlannedStage{counted}},
			&spatev1.StageStarted{ExpectedRequests: 100}, 25, "~60"},
		"counted, then timed": {left{stages: []*spatev1.PlannedStage{counted, minute}},
			&spatev1.StageStarted{ExpectedRequests: 100}, 0, "≥70"},
		"timed, then counted": {left{stages: []*spatev1.PlannedStage{minute, counted}}, timed, 0, "≥40"},
		"timed, timed, counted": {left{stages: []*spatev1.PlannedStage{minute, minute, counted}}, timed, 0,
			"≥110"},
		"counted, at the last pace": {left{stages: []*spatev1.PlannedStage{minute, counted}}, timed, 10, "~240"},
		"another workload's pace":   {left{stages: []*spatev1.PlannedStage{minute, other}}, timed, 10, "≥40"},
		"a search, by what is spent": {left{stages: []*spatev1.PlannedStage{minute, minute}, series: true,
			spent: 30 * time.Second}, timed, 0, "≤80"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Run{left: c.left}
			at := c.began.GetStageIndex()
			r.Take(0, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageStarted{StageStarted: c.began}})
			r.Take(0, &spatev1.RunEvent{Event: &spatev1.RunEvent_StageProgress{StageProgress: &spatev1.StageProgress{
				StageIndex: at, Elapsed: durationpb.New(20 * time.Second), Completed: c.completed,
			}}})
			left := r.Left()
			if got := plans.InTable.Say(left, fmt.Sprintf("%.0f", left.Known)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
