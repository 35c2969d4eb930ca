package ready

import (
	"context"
	"errors"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestCancelledProbe checks that a target does not count as dead because the preparation was cancelled.
func TestCancelledProbe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := enginetest.AssignOf(
		enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, enginetest.New(t, 0, 0)),
		0,
	)
	if _, err := Prepare(ctx, a, nil, resourcesOf(Limits{})); !errors.Is(err, context.Canceled) ||
		FailureKindOf(err) != spatev1.FailureKind_FAILURE_KIND_AGENT {
		t.Errorf("%v, %v", FailureKindOf(err), err)
	}
}
