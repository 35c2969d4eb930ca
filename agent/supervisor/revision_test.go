package supervisor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A revision that comes during the preparation is part of the resulting stage.
func TestRevisionWhilePreparing(t *testing.T) {
	r := supervisorOf(t, ready.Limits{}, 1<<20)
	e := enginetest.New(t, 0, 0)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 4, Requests: 40}, e), 1, 3, 1)
	said := make(said, 4)
	asked := &assignment{ref: a.GetRef(), responder: said, cancel: func() {}, helloSent: clock.Now()}
	r.current = asked
	r.Revise(
		&spatev1.Revise{Ref: enginetest.AtRevision(a.GetRef(), 2), Stripe: &spatev1.Stripe{Weights: []uint32{1}}},
		said,
	)
	s, err := ready.Prepare(t.Context(), a, nil, r.resources)
	r.prepared(asked, s, err)
	if got := <-said; got != "applied" || s.Closed.Slots() != 4 || asked.ref.GetRevision() != 2 || len(said) != 0 {
		t.Errorf("%s, %d slots, revision %d", got, s.Closed.Slots(), asked.ref.GetRevision())
	}
}

func TestRevisionOfAnotherStage(t *testing.T) {
	r := supervisorOf(t, ready.Limits{}, 1<<20)
	said := make(said, 1)
	r.Revise(&spatev1.Revise{Ref: &spatev1.AssignmentRef{RunId: "x", StageIndex: 4}}, said)
	if got := <-said; got != "stage 5 of run x was revised, but is not assigned" {
		t.Error(got)
	}
}

// Messages about an assignment name its run and stage, so that programs find them.
func TestMessagesNameTheAssignment(t *testing.T) {
	var out bytes.Buffer
	LoggerOf(&spatev1.AssignmentRef{RunId: "x", StageIndex: 4}, slog.New(slog.NewJSONHandler(&out, nil))).Info("armed")
	if text := out.String(); !strings.Contains(text, `"msg":"armed","run":"x","stage_index":4}`) {
		t.Error(text)
	}
}
