package plans

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Defaults of what a plan leaves out. docs/plan.md lists them.
const (
	defaultDrainTimeout   = 60 * time.Second
	defaultConnectTimeout = 5 * time.Second
	defaultRequestTimeout = 10 * time.Minute
	defaultAPI            = "chat"
	defaultArrival        = "poisson"
	defaultFirstTokenID   = 1000
	defaultLastTokenID    = 9999
	simulatedModel        = "simulated"

	defaultEngines              = 1
	defaultPrefill              = 50_000
	defaultDecodeStep           = 5 * time.Millisecond
	defaultDecodeStepPerRequest = 50 * time.Microsecond
	defaultMaxRunning           = 256
)

// or returns v, or other if v is the zero value.
func or[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

func orDuration(d *durationpb.Duration, other time.Duration) *durationpb.Duration {
	if d == nil {
		return durationpb.New(other)
	}
	return d
}

// filledTarget returns a copy of t with its defaults, on the given endpoints.
func filledTarget(t *spatev1.Target, endpoints []string) *spatev1.Target {
	t = proto.CloneOf(t)
	t.Endpoints = nil
	for _, e := range endpoints {
		t.Endpoints = append(t.Endpoints, baseURL(e))
	}
	if t.Simulator != nil {
		fillSimulator(t.Simulator)
		t.Model = or(t.Model, simulatedModel)
	}
	t.Api = or(t.Api, defaultAPI)
	t.ConnectTimeout = orDuration(t.ConnectTimeout, defaultConnectTimeout)
	t.RequestTimeout = orDuration(t.RequestTimeout, defaultRequestTimeout)
	return t
}

func fillSimulator(s *spatev1.SimulatedTarget) {
	s.Endpoints = or(s.Endpoints, defaultEngines)
	s.PrefillTokensPerSecond = or(s.PrefillTokensPerSecond, defaultPrefill)
	s.DecodeStep = orDuration(s.DecodeStep, defaultDecodeStep)
	s.DecodeStepPerRequest = orDuration(s.DecodeStepPerRequest, defaultDecodeStepPerRequest)
	s.MaxRunning = or(s.MaxRunning, defaultMaxRunning)
}

func filledWorkload(w *spatev1.Workload) *spatev1.Workload {
	w = proto.CloneOf(w)
	w.Name = workloadName(w)
	if r := w.GetRandom(); r != nil {
		r.FirstTokenId, r.LastTokenId = tokenIDs(r)
	}
	return w
}

func workloadName(w *spatev1.Workload) string {
	if r := w.GetRandom(); w.GetName() == "" && r != nil {
		return fmt.Sprintf("%d:%d", r.GetIsl(), r.GetOsl())
	}
	return w.GetName()
}

func tokenIDs(r *spatev1.RandomContent) (first, last uint32) {
	return or(r.GetFirstTokenId(), defaultFirstTokenID), or(r.GetLastTokenId(), defaultLastTokenID)
}
