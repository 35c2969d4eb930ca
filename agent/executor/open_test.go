package executor

import (
	"sync"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// stuck is a workload that blocks on the prompt of its first request until it is released.
type stuck struct {
	workload.Workload
	until chan struct{}
}

func (s stuck) AppendPrompt(dst []byte, r workload.Request) ([]byte, error) {
	if r.Index == 0 {
		<-s.until
	}
	return s.Workload.AppendPrompt(dst, r)
}

// A request whose prompt is not ready when it is due delays no other: the loop waits only for workers that have nothing
// left to do but send.
func TestUnfinishedPromptDelaysNoOther(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	stage := enginetest.StageOf(&spatev1.LoadPoint{Rate: 200, Arrival: "constant", Requests: 20}, e)
	s, err := ready.Prepare(t.Context(), enginetest.AssignOf(stage, 0, 1), resourcesOf(ready.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	until := make(chan struct{})
	s.Content = stuck{s.Content, until}
	letGo := sync.OnceFunc(func() { close(until) })
	u := start(t, s)
	t.Cleanup(letGo)
	enginetest.Eventually(t, "all but the first are sent", func() bool { return len(e.Requests()) >= 19 })
	letGo()
	o := u.Wait(t)
	if n := o.Totals.GetCounters().GetCompleted(); n != 20 {
		t.Errorf("%d requests completed, want 20", n)
	}
}
