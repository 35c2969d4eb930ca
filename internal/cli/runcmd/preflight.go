package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
)

// preflightTimeout bounds the call to one target. A target that this machine cannot reach is left to the agents.
const preflightTimeout = 5 * time.Second

// preflight finds workloads whose requests are longer than a target's model accepts, if the target reports its limit:
// before the run, not after the first thousand refusals. The error lists them all, with their positions in the plan.
func preflight(ctx context.Context, plan *plans.Plan, stages []*spatev1.Stage, secrets map[string]string) error {
	var long plans.Mistakes
	err := command.UntilInterrupted(ctx, "asking the targets for their limits", func(ctx context.Context) error {
		long = tooLong(ctx, plan, stages, secrets)
		return context.Cause(ctx)
	})
	if err == nil && len(long) > 0 {
		return long
	}
	return err
}

// placeholders finds endpoints that cannot exist: shipped plans use names under .example, which is reserved for that
// purpose (RFC 2606).
func placeholders(plan *plans.Plan) (missing plans.Mistakes) {
	for n, t := range plan.Targets() {
		for i, endpoint := range t.GetEndpoints() {
			if u, err := url.Parse(endpoint); err == nil && strings.HasSuffix(u.Hostname(), ".example") {
				missing = append(missing, plan.Mistake(fmt.Sprintf("targets[%d].endpoints[%d]", n, i),
					fmt.Sprintf("%s is a placeholder: give --set targets.%s.endpoints=URL, or --simulate", endpoint,
						t.GetName())))
				break
			}
		}
	}
	return missing
}

// tooLong finds workloads whose requests are longer than a target's model accepts.
func tooLong(ctx context.Context, plan *plans.Plan, stages []*spatev1.Stage, secrets map[string]string) plans.Mistakes {
	var long plans.Mistakes
	limits := map[string]uint32{}
	seen := map[[2]string]bool{}
	for _, s := range stages {
		t, w := s.GetTarget(), s.GetWorkload()
		cell := [2]string{t.GetName(), w.GetName()}
		if seen[cell] {
			continue
		}
		seen[cell] = true
		longest := longestRequest(s)
		if longest == 0 {
			continue
		}
		limit, asked := limits[t.GetName()]
		if !asked {
			limit = limitOf(ctx, t, secrets)
			limits[t.GetName()] = limit
		}
		if limit > 0 && longest > limit {
			long = append(long, plan.Mistake(workloadField(stages, w),
				fmt.Sprintf("workload %s makes requests of up to %s tokens, prompt and "+
					"output together, and target %s takes at most %s: make them shorter, or serve the model with a longer limit",
					w.GetName(), words.Thousands(uint64(longest)), t.GetName(), words.Thousands(uint64(limit)))))
		}
	}
	return long
}

// longestRequest returns the length in tokens of a stage's longest request, as far as it is known. 0: it is not.
func longestRequest(s *spatev1.Stage) (tokens uint32) {
	for _, source := range content.Sources(s) {
		if n, known := workload.LongestRequest(source.Workload, source.Rows); known {
			tokens = max(tokens, n)
		}
	}
	return tokens
}

// workloadField returns the field of a workload in the plan. Stages keep the plan's order of workloads.
func workloadField(stages []*spatev1.Stage, w *spatev1.Workload) string {
	var names []string
	for _, s := range stages {
		if name := s.GetWorkload().GetName(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("workloads[%d]", slices.Index(names, w.GetName()))
}

// limitOf returns the longest request that a target accepts, in tokens. 0: the target does not report it, or does not
// answer this machine.
func limitOf(ctx context.Context, t *spatev1.Target, secrets map[string]string) uint32 {
	if s := t.GetSimulator(); s != nil || served(t) {
		return s.GetMaxModelTokens()
	}
	models, _ := modelsOf(ctx, t, secrets) // the agents report why it does not answer
	for _, m := range models {
		if m.ID == t.GetModel() {
			return m.MaxModelTokens
		}
	}
	return 0
}

// modelsOf asks a target's first endpoint for the models that it serves.
func modelsOf(ctx context.Context, t *spatev1.Target, secrets map[string]string) ([]api.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	client, err := clientOf(t, secrets, time.Second)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Models(ctx, 0)
}

// clientOf makes a client of a target.
func clientOf(t *spatev1.Target, secrets map[string]string, connectTimeout time.Duration) (*stream.Client, error) {
	reveal := func(text string) string {
		if secret.IsReference(text) {
			return secrets[text]
		}
		return text
	}
	headers := map[string]string{}
	for name, value := range t.GetHeaders() {
		headers[name] = reveal(value)
	}
	connection, err := wire.SettingsOf(t.GetConnection(),
		func(reference string) (string, error) { return reveal(reference), nil })
	if err != nil {
		return nil, err
	}
	return stream.New(stream.Config{
		Endpoints: t.GetEndpoints(), API: t.GetApi(), Whole: !defaults.Streams(t), Template: defaults.Template(t),
		Model: cmp.Or(t.GetModel(), "-"), APIKey: reveal(t.GetApiKey()), Headers: headers, Body: t.GetBody().AsMap(),
		ConnectTimeout: connectTimeout, Connection: connection,
	})
}
