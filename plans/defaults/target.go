package defaults

import (
	"cmp"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/secret"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ReadyWithin is how long to wait for a server that is starting.
const ReadyWithin = 10 * time.Minute

// RequestTimeout is the default limit on a whole request.
const RequestTimeout = 10 * time.Minute

// Other defaults of a target.
const (
	connectTimeout = 5 * time.Second
	tokenizer      = "auto"
	exactOutput    = "auto"
	runningUsage   = "auto"
	simulatedModel = "simulated"
)

// Defaults of a simulated target.
const (
	engines              = 1
	prefill              = 50_000
	decodeStep           = 5 * time.Millisecond
	decodeStepPerRequest = 50 * time.Microsecond
	maxRunning           = 256
	cacheBlockTokens     = 16
)

// Target returns a copy of t with its defaults, for a target that is reached at its own endpoints.
func Target(t *spatev1.Target) *spatev1.Target {
	t = proto.CloneOf(t)
	t.Simulator = nil // A simulator beside endpoints is for simulations.
	for i, e := range t.Endpoints {
		t.Endpoints[i] = naming.BaseURL(e)
	}
	fillTarget(t)
	return t
}

// SimulatedTarget returns a copy of t with its defaults, as the simulator serves it. The copy has no endpoints until
// the simulator is started.
func SimulatedTarget(t *spatev1.Target) *spatev1.Target {
	t = proto.CloneOf(t)
	t.Endpoints, t.Ready = nil, nil
	t.Connection = simulatedConnection(t.Connection)
	if t.Simulator == nil {
		t.Simulator = &spatev1.SimulatedTarget{}
	}
	fillSimulator(t.Simulator)
	t.Model = cmp.Or(t.Model, simulatedModel)
	if t.ServerMetrics != nil {
		t.ServerMetrics.Urls, t.ServerMetrics.GpuUrls = nil, nil // The simulator has its own, and no GPUs.
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

// WithoutSecrets removes the secrets of a target, which a simulation must neither need nor be sent.
func WithoutSecrets(t *spatev1.Target) {
	t.ApiKey = ""
	maps.DeleteFunc(t.Headers, func(_, value string) bool { return secret.IsReference(value) })
}

func fillTarget(t *spatev1.Target) {
	t.Api = cmp.Or(t.Api, registry.All[0].Name)
	t.Tokenizer = cmp.Or(t.Tokenizer, tokenizer)
	t.ExactOutput = cmp.Or(t.ExactOutput, exactOutput)
	t.RunningUsage = cmp.Or(t.RunningUsage, runningUsage)
	t.Prompts = cmp.Or(t.Prompts, usualPrompts(API(t)))
	t.ConnectTimeout = Duration(t.ConnectTimeout, connectTimeout)
	t.RequestTimeout = Duration(t.RequestTimeout, RequestTimeout)
	if t.Ready != nil {
		t.Ready.Within = Duration(t.Ready.Within, ReadyWithin)
	}
	servermetrics.Fill(t.ServerMetrics)
}

func fillSimulator(s *spatev1.SimulatedTarget) {
	s.Endpoints = cmp.Or(s.Endpoints, engines)
	s.PrefillTokensPerSecond = cmp.Or(s.PrefillTokensPerSecond, prefill)
	s.DecodeStep = Duration(s.DecodeStep, decodeStep)
	s.DecodeStepPerRequest = Duration(s.DecodeStepPerRequest, decodeStepPerRequest)
	s.MaxRunning = cmp.Or(s.MaxRunning, maxRunning)
	s.Replicas = cmp.Or(s.Replicas, 1)
	s.CacheBlockTokens = cmp.Or(s.CacheBlockTokens, cacheBlockTokens)
	s.TokensPerFrame = cmp.Or(s.TokensPerFrame, 1)
	s.Speed = cmp.Or(s.Speed, 1)
}
