package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// preflightTimeout bounds the question to one target. A target that this machine cannot reach is the agents' to judge.
const preflightTimeout = 5 * time.Second

// preflight finds workloads whose requests are longer than a target's model takes, where the target tells its limit: before the run, not
// after the first thousand refusals. The error has all of them.
func preflight(ctx context.Context, stages []*spatev1.Stage, secrets map[string]string) error {
	var long []string
	limits := map[string]uint32{}
	seen := map[[2]string]bool{}
	for _, s := range stages {
		t, w := s.GetTarget(), s.GetWorkload()
		cell := [2]string{t.GetName(), w.GetName()}
		if t.GetSimulator() != nil || seen[cell] {
			continue
		}
		seen[cell] = true
		if _, asked := limits[t.GetName()]; !asked {
			limits[t.GetName()] = modelLimit(ctx, t, secrets)
		}
		if longest, known := longestOf(s); known && limits[t.GetName()] > 0 && longest > limits[t.GetName()] {
			long = append(long, fmt.Sprintf("workload %s makes requests of up to %d tokens, prompt and output together, and target %s takes at most %d: "+
				"make them shorter, or serve the model with a longer limit", w.GetName(), longest, t.GetName(), limits[t.GetName()]))
		}
	}
	if len(long) > 0 {
		return badInputf("%s", strings.Join(long, "\n"))
	}
	return nil
}

// longestOf is the longest request that a stage can make.
func longestOf(s *spatev1.Stage) (uint32, bool) {
	if d := s.GetDataset(); d != nil {
		return d.GetLongest(), d.GetLongest() > 0
	}
	return workload.Longest(s.GetWorkload())
}

// modelLimit asks a target for its model's limit. 0: it does not tell, or nobody answers here.
func modelLimit(ctx context.Context, t *spatev1.Target, secrets map[string]string) uint32 {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	reveal := func(text string) string {
		if plans.IsReference(text) {
			return secrets[text]
		}
		return text
	}
	headers := map[string]string{}
	for name, value := range t.GetHeaders() {
		headers[name] = reveal(value)
	}
	client, err := stream.New(stream.Config{
		Endpoints: t.GetEndpoints()[:1], API: t.GetApi(), Model: t.GetModel(), APIKey: reveal(t.GetApiKey()), Headers: headers, ConnectTimeout: time.Second,
	})
	if err != nil {
		return 0 // the agents say why
	}
	defer client.Close()
	models, err := client.Models(ctx, 0)
	if err != nil {
		return 0
	}
	for _, m := range models {
		if m.ID == t.GetModel() {
			return m.MaxModelTokens
		}
	}
	return 0
}
