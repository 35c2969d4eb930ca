package agent

import (
	"log/slog"

	"github.com/spate-load/spate/agent/ready"
)

// resourcesOf returns the resources of an agent with these limits and without a directory for datasets.
func resourcesOf(l ready.Limits) *ready.Resources {
	return &ready.Resources{Limits: l, Datasets: &ready.Datasets{}, Logger: slog.New(slog.DiscardHandler)}
}

// resourcesIn returns the resources of an agent with a directory for datasets.
func resourcesIn(dir string) *ready.Resources {
	r := resourcesOf(ready.Limits{})
	r.Datasets.Dir = dir
	return r
}
