package runcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/kubernetes"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/servermetrics"
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
	return cmp.Or(err, long.OrNil())
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
		names = words.AppendOnce(names, s.GetWorkload().GetName())
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
	return lists.Find(models, func(m api.Model) bool { return m.ID == t.GetModel() }).MaxModelTokens
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
	config, err := ready.ClientConfig(t, func(reference string) (string, error) { return secrets[reference], nil })
	if err != nil {
		return nil, err
	}
	config.Model, config.ConnectTimeout = cmp.Or(config.Model, stream.Unnamed), connectTimeout
	return stream.New(config)
}

// withPods gives each target that has kubernetes the endpoints and the addresses of metrics that the cluster has now,
// unless the plan has them, and says which. It blocks until kubectl has answered.
func withPods(ctx context.Context, plan *plans.Plan, notes io.Writer) (*plans.Plan, error) {
	if _, simulation := plan.Compression(); simulation {
		return plan, nil
	}
	var found []string
	var unknown plans.Mistakes
	err := command.UntilInterrupted(ctx, "asking kubectl for the targets' pods", func(ctx context.Context) error {
		for i, t := range plan.Proto().GetTargets() {
			wanted := podsOf(t)
			if wanted == nil {
				continue
			}
			pods, err := kubernetes.Look(ctx, wanted)
			if err != nil {
				unknown = append(unknown, plan.Mistake(fmt.Sprintf("targets[%d].kubernetes", i), err.Error()))
				continue
			}
			fmt.Fprintf(notes, "Target %s: %s\n", t.GetName(), strings.Join(podWords(pods), "; "))
			found = append(found, assignments(i, pods)...)
		}
		return context.Cause(ctx)
	})
	if err := cmp.Or(err, unknown.OrNil()); err != nil {
		return nil, err
	}
	return plan.With(found...)
}

// podsOf returns what must be looked up for a target, nil if nothing must.
func podsOf(t *spatev1.Target) *spatev1.KubernetesTarget {
	k := t.GetKubernetes()
	if k == nil {
		return nil
	}
	if len(t.GetEndpoints()) > 0 {
		k.Service = ""
	}
	if len(t.GetServerMetrics().GetUrls()) > 0 || t.GetServerMetrics().GetRead() == servermetrics.ReadNever {
		k.MetricsSelector = ""
	}
	if k.GetService() == "" && k.GetMetricsSelector() == "" {
		return nil
	}
	return k
}

// podWords says what was found.
func podWords(pods kubernetes.Found) (list []string) {
	if n := len(pods.Endpoints); n > 0 {
		list = append(list, words.Count(uint64(n), "endpoint")+": "+words.Shorten(pods.Endpoints, 5))
	}
	if n := len(pods.Metrics); n > 0 {
		all := lists.Each(pods.Metrics, func(url string) string {
			if role := pods.Roles[url]; role != "" {
				url += " (" + role + ")"
			}
			return url
		})
		list = append(list, "metrics of "+words.Count(uint64(n), "pod")+": "+words.Shorten(all, 5))
	}
	return list
}

// assignments returns the changes of a target that write what was found into the plan.
func assignments(target int, pods kubernetes.Found) (set []string) {
	add := func(field string, value any) {
		text, err := json.Marshal(value) // JSON is YAML
		if err != nil {
			panic(err) // of strings, lists and maps of strings
		}
		set = append(set, fmt.Sprintf("targets[%d].%s=%s", target, field, text))
	}
	if len(pods.Endpoints) > 0 {
		add("endpoints", pods.Endpoints)
	}
	if len(pods.Metrics) > 0 {
		add("server_metrics.urls", pods.Metrics)
	}
	if len(pods.Roles) > 0 {
		add("server_metrics.roles", pods.Roles)
	}
	return set
}

// reach waits for the targets, or returns an error if none answers, and fills in the models of those that have none.
func (f *runFlags) reach(
	ctx context.Context, plan *plans.Plan, secrets map[string]string, notes io.Writer,
) (*plans.Plan, error) {
	if missing := placeholders(plan); len(missing) > 0 {
		return nil, missing
	}
	var changes []string // none with 0: as the plan says
	for i, t := range plan.Targets() {
		if f.WaitReady > 0 && t.GetSimulator() == nil {
			changes = append(changes, fmt.Sprintf("targets[%d].ready.within=%s", i, f.WaitReady))
		}
	}
	plan, err := plan.With(changes...)
	if err != nil {
		return nil, err
	}
	if err := f.awaitTargets(ctx, plan, secrets, notes); err != nil {
		return nil, err
	}
	return withModels(ctx, plan, secrets, notes)
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
