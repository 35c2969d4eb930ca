package progress

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestTimeLeftOfTheRun(t *testing.T) {
	minute := &spatev1.Stage{Load: &spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(time.Minute)},
		Pause: durationpb.New(10 * time.Second)}
	counted := &spatev1.Stage{Load: &spatev1.LoadPoint{Concurrency: 1, Requests: 100}}
	other := proto.CloneOf(counted)
	other.Workload = &spatev1.Workload{Name: "other"}
	timed := &spatev1.StageStarted{Expected: durationpb.New(time.Minute)}
	second := proto.CloneOf(timed)
	second.StageIndex = 1
	for name, c := range map[string]struct {
		left      timeLeft
		began     *spatev1.StageStarted
		completed uint64
		want      string
	}{
		"nothing is known":        {timeLeft{}, timed, 0, ""},
		"this stage and the next": {timeLeft{stages: []*spatev1.Stage{minute, minute}}, timed, 0, "ETA ~1m50s"},
		"the last stage":          {timeLeft{stages: []*spatev1.Stage{minute, minute}}, second, 0, "ETA ~40s"},
		"counted, none ended": {timeLeft{stages: []*spatev1.Stage{counted}},
			&spatev1.StageStarted{ExpectedRequests: 100}, 0, ""},
		"counted, at the pace": {timeLeft{stages: []*spatev1.Stage{counted}},
			&spatev1.StageStarted{ExpectedRequests: 100}, 25, "ETA ~1m"},
		"counted, then timed": {timeLeft{stages: []*spatev1.Stage{counted, minute}},
			&spatev1.StageStarted{ExpectedRequests: 100}, 0, "ETA ≥1m10s"},
		"timed, then counted": {timeLeft{stages: []*spatev1.Stage{minute, counted}}, timed, 0, "ETA ≥40s"},
		"timed, timed, counted": {timeLeft{stages: []*spatev1.Stage{minute, minute, counted}}, timed, 0,
			"ETA ≥1m50s"},
		"counted, at the last pace": {timeLeft{stages: []*spatev1.Stage{minute, counted}}, timed, 10, "ETA ~4m"},
		"another workload's pace":   {timeLeft{stages: []*spatev1.Stage{minute, other}}, timed, 10, "ETA ≥40s"},
		"a search, by what is spent": {timeLeft{stages: []*spatev1.Stage{minute, minute}, series: true,
			spent: 30 * time.Second}, timed, 0, "ETA ≤1m20s"},
	} {
		t.Run(name, func(t *testing.T) {
			last := &spatev1.StageProgress{Elapsed: durationpb.New(20 * time.Second), Completed: c.completed}
			c.left.see(c.began, last)
			if got := c.left.words(c.began, last); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
