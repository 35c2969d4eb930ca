package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// reach waits for the targets, or returns an error if none answers, and fills in the models of those that have none.
func (f *runFlags) reach(
	ctx context.Context, plan *plans.Plan, secrets map[string]string, notes io.Writer,
) (*plans.Plan, error) {
	if missing := placeholders(plan); len(missing) > 0 {
		return nil, missing
	}
	plan, err := withReady(plan, f.WaitReady)
	if err != nil {
		return nil, err
	}
	if err := f.awaitTargets(ctx, plan, secrets, notes); err != nil {
		return nil, err
	}
	return withModels(ctx, plan, secrets, notes)
}

// withReady gives each target that has endpoints the longest time to wait for it. 0: as the plan says.
func withReady(plan *plans.Plan, within time.Duration) (*plans.Plan, error) {
	var changes []string
	for i, t := range plan.Targets() {
		if within > 0 && t.GetSimulator() == nil {
			changes = append(changes, fmt.Sprintf("targets[%d].ready.within=%s", i, within))
		}
	}
	return plan.With(changes...)
}

// awaitTargets waits for targets that have ready. It returns an error if one of them does not come, or if no target
// answers. It asks the targets that need this machine: all of a local run, else those that have to say their model.
func (f *runFlags) awaitTargets(
	ctx context.Context, plan *plans.Plan, secrets map[string]string, notes io.Writer,
) error {
	return command.UntilInterrupted(ctx, "waiting for the targets", func(ctx context.Context) error {
		var dead error
		alive := false
		for _, t := range plan.Targets() {
			elsewhere := (f.Where.Coordinator != "" || len(f.Local.On) > 0) && (t.GetModel() != "" || t.GetReady() == nil)
			if len(t.GetEndpoints()) == 0 || elsewhere || served(t) {
				alive = true
				continue
			}
			err := awaitTarget(ctx, t, secrets, notes)
			if err != nil && t.GetReady() != nil || ctx.Err() != nil {
				return err
			}
			alive, dead = alive || err == nil, cmp.Or(dead, err)
		}
		if alive {
			return nil
		}
		return dead
	})
}

// awaitTarget waits for a target that has ready. It returns an error if the target is not ready.
func awaitTarget(ctx context.Context, t *spatev1.Target, secrets map[string]string, notes io.Writer) error {
	client, err := clientOf(t, secrets, t.GetConnectTimeout().AsDuration())
	if err != nil {
		return err
	}
	defer client.Close()
	if t.GetReady() == nil {
		ctx, cancel := context.WithTimeout(ctx, 2*preflightTimeout)
		defer cancel()
		return ready.Dead(ctx, client, t)
	}
	_, err = ready.Await(ctx, client, t, func(text string) { fmt.Fprintln(notes, "  "+text) })
	return err
}
