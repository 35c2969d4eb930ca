package ready

import (
	"log/slog"

	"github.com/spate-load/spate/workload/store"
)

// resourcesOf returns the resources of an agent with these limits and without a directory for datasets.
func resourcesOf(l Limits) *Resources {
	return &Resources{Limits: l, Datasets: &store.Fetcher{}, Logger: slog.New(slog.DiscardHandler)}
}
