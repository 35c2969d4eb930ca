package ready

import "log/slog"

// resourcesOf returns the resources of an agent with these limits and without a directory for datasets.
func resourcesOf(l Limits) *Resources {
	return &Resources{Limits: l, Datasets: &Datasets{}, Logger: slog.New(slog.DiscardHandler)}
}
