package runcmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// withModels gives each target without a model the only model that its server lists, and says which. The error names
// each target whose server lists several models or none. withModels blocks until the servers have answered.
func withModels(
	ctx context.Context, plan *plans.Plan, secrets map[string]string, notes io.Writer,
) (*plans.Plan, error) {
	var found []string
	var unknown plans.Mistakes
	err := command.UntilInterrupted(ctx, "asking the targets for their models", func(ctx context.Context) error {
		for i, t := range plan.Targets() {
			if t.GetModel() != "" || len(t.GetEndpoints()) == 0 {
				continue
			}
			model, problem := onlyModel(ctx, t, secrets)
			if problem != "" {
				unknown = append(unknown, plan.Mistake(fmt.Sprintf("targets[%d]", i), "has no model, and "+problem+
					": give the name under which it is served (--model, or model in a plan)"))
				continue
			}
			fmt.Fprintf(notes, "Target %s serves one model: %s\n", t.GetName(), model)
			found = append(found, fmt.Sprintf("targets[%d].model=%s", i, strconv.Quote(model)))
		}
		return context.Cause(ctx)
	})
	if err == nil && len(unknown) > 0 {
		err = unknown
	}
	if err != nil {
		return nil, err
	}
	return plan.With(found...)
}

// onlyModel asks a target which model it serves. problem says why that is not known.
func onlyModel(ctx context.Context, t *spatev1.Target, secrets map[string]string) (model, problem string) {
	models, err := modelsOf(ctx, t, secrets)
	switch {
	case err != nil:
		return "", t.GetEndpoints()[0] + " does not say which it serves: " + err.Error()
	case len(models) == 0:
		return "", t.GetEndpoints()[0] + " lists none"
	case len(models) > 1:
		return "", fmt.Sprintf("%s lists %d (%s)", t.GetEndpoints()[0], len(models),
			words.Shorten(modelNames(models), 5))
	case strings.ContainsFunc(models[0].ID, func(r rune) bool { return !strconv.IsPrint(r) }):
		return "", t.GetEndpoints()[0] + " lists one whose name cannot be printed"
	}
	return models[0].ID, ""
}

func modelNames(models []api.Model) []string {
	var names []string
	for _, m := range models {
		names = append(names, strconv.Quote(m.ID))
	}
	return names
}
