package runcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/kubernetes"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
	if err == nil && len(unknown) > 0 {
		err = unknown
	}
	if err != nil {
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
		var all []string
		for _, url := range pods.Metrics {
			if role := pods.Roles[url]; role != "" {
				url += " (" + role + ")"
			}
			all = append(all, url)
		}
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
