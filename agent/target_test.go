package agent

import (
	"context"
	"errors"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestCancelledProbe checks that a target does not count as dead because the preparation was cancelled.
func TestCancelledProbe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := assignOf(stageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, newEngine(t, 0, 0)), 0)
	if _, err := prepare(ctx, a, resourcesOf(limits{})); !errors.Is(err, context.Canceled) ||
		failureKindOf(err) != spatev1.FailureKind_FAILURE_KIND_AGENT {
		t.Errorf("%v, %v", failureKindOf(err), err)
	}
}
