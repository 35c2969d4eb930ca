package plans

import (
	"cmp"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Defaults of a plan and its targets. docs/plan.md lists them.
const (
	defaultDrainTimeout   = 60 * time.Second
	defaultOnAgentLoss    = "fail"
	defaultConnectTimeout = 5 * time.Second
	defaultRequestTimeout = 10 * time.Minute
	defaultArrival        = "poisson"
	defaultTokenizer      = "auto"
	defaultExactOutput    = "auto"
	defaultRunningUsage   = "auto"
	simulatedModel        = "simulated"

	defaultEngines              = 1
	defaultPrefill              = 50_000
	defaultDecodeStep           = 5 * time.Millisecond
	defaultDecodeStepPerRequest = 50 * time.Microsecond
	defaultMaxRunning           = 256
	defaultCacheBlockTokens     = 16
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

// filledObservers returns a copy of o with its defaults, or nil if o is nil.
func filledObservers(o *spatev1.Observers) *spatev1.Observers {
	o = proto.CloneOf(o)
	if o != nil && o.GetRate() == 0 {
		o.Concurrency = cmp.Or(o.GetConcurrency(), 1)
	}
	return o
}

// filledTarget returns a copy of t with its defaults, for a target that is reached at its own endpoints.
func filledTarget(t *spatev1.Target) *spatev1.Target {
	t = proto.CloneOf(t)
	t.Simulator = nil // A simulator beside endpoints is for simulations.
	for i, e := range t.Endpoints {
		t.Endpoints[i] = baseURL(e)
	}
	fillTarget(t)
	return t
}

// simulatedTarget returns a copy of t with its defaults, as the simulator serves it. The copy has no endpoints until
// the simulator is started.
func simulatedTarget(t *spatev1.Target) *spatev1.Target {
	t = proto.CloneOf(t)
	t.Endpoints = nil
	t.Connection = simulatedConnection(t.Connection)
	if t.Simulator == nil {
		t.Simulator = &spatev1.SimulatedTarget{}
	}
	fillSimulator(t.Simulator)
	t.Model = cmp.Or(t.Model, simulatedModel)
	if t.ServerMetrics != nil {
		t.ServerMetrics.Urls = nil // The simulator has its own.
	}
	fillTarget(t)
	return t
}

// simulatedConnection returns the part of a connection that applies to the simulator, which needs no proxy and no TLS
// and speaks HTTP/1.1.
func simulatedConnection(c *spatev1.Connection) *spatev1.Connection {
	if c.GetReuse() == "" {
		return nil
	}
	return &spatev1.Connection{Reuse: c.GetReuse()}
}

// withoutSecrets removes the secrets of a target, which a simulation must neither need nor be sent.
func withoutSecrets(t *spatev1.Target) {
	t.ApiKey = ""
	maps.DeleteFunc(t.Headers, func(_, value string) bool { return IsReference(value) })
}

func fillTarget(t *spatev1.Target) {
	t.Api = cmp.Or(t.Api, defaultAPI)
	t.Tokenizer = cmp.Or(t.Tokenizer, defaultTokenizer)
	t.ExactOutput = cmp.Or(t.ExactOutput, defaultExactOutput)
	t.RunningUsage = cmp.Or(t.RunningUsage, defaultRunningUsage)
	t.Prompts = cmp.Or(t.Prompts, usualPrompts(apiOf(t)))
	t.ConnectTimeout = orDuration(t.ConnectTimeout, defaultConnectTimeout)
	t.RequestTimeout = orDuration(t.RequestTimeout, defaultRequestTimeout)
	fillServerMetrics(t.ServerMetrics)
}

func fillSimulator(s *spatev1.SimulatedTarget) {
	s.Endpoints = cmp.Or(s.Endpoints, defaultEngines)
	s.PrefillTokensPerSecond = cmp.Or(s.PrefillTokensPerSecond, defaultPrefill)
	s.DecodeStep = orDuration(s.DecodeStep, defaultDecodeStep)
	s.DecodeStepPerRequest = orDuration(s.DecodeStepPerRequest, defaultDecodeStepPerRequest)
	s.MaxRunning = cmp.Or(s.MaxRunning, defaultMaxRunning)
	s.Replicas = cmp.Or(s.Replicas, 1)
	s.CacheBlockTokens = cmp.Or(s.CacheBlockTokens, defaultCacheBlockTokens)
	s.TokensPerFrame = cmp.Or(s.TokensPerFrame, 1)
	s.Speed = cmp.Or(s.Speed, 1)
}
