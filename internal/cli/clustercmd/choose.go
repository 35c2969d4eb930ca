package clustercmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// latest names the run that was submitted last.
const latest = "latest"

// named finds the run that a person means: by its ID, by a unique prefix of it, or as the latest.
func named(runs []*spatev1.RunSummary, name string) (*spatev1.RunSummary, error) {
	if len(runs) == 0 {
		return nil, errors.New("the coordinator has no runs")
	}
	if name == latest {
		return slices.MaxFunc(runs, func(a, b *spatev1.RunSummary) int {
			return a.GetSubmitTime().AsTime().Compare(b.GetSubmitTime().AsTime())
		}), nil
	}
	var found []*spatev1.RunSummary
	for _, r := range runs {
		if r.GetRunId() == name {
			return r, nil
		}
		if name != "" && strings.HasPrefix(r.GetRunId(), name) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no run %q; the newest are %s", name, words.Shorten(ids(runs), 3))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d runs start with %q: %s; give more of the id", len(found), name,
		words.Shorten(ids(found), 3))
}

func ids(runs []*spatev1.RunSummary) []string {
	var all []string
	for _, r := range runs {
		all = append(all, r.GetRunId())
	}
	return all
}

// GoesOn reports whether a run waits or is in progress.
func GoesOn(r *spatev1.RunSummary) bool {
	return r.GetState() == spatev1.RunState_RUN_STATE_WAITING || r.GetState() == spatev1.RunState_RUN_STATE_RUNNING
}
