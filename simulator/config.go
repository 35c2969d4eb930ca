package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config configures a simulator. Default returns the defaults; zero fields mean zero. Config holds a secret (APIKey):
// do not print it.
type Config struct {
	// Endpoints is the number of endpoints that Start serves if it is given no addresses. Default 1.
	Endpoints int
	// Replicas is the number of equal engines behind one endpoint. A request goes to the engine with the fewest
	// requests in flight, the first among equals. Default 1.
	Replicas int
	// ReplicaSpread is how much slower the last engine is than the first, as a share, counted over all endpoints. The
	// engines between lie evenly between them. Not for use with PrefillEngines. Default 0: all are equal.
	ReplicaSpread float64
	// PrefillEngines makes an endpoint a disaggregated group: this number of engines prefill, from one queue, and the
	// Replicas decode. 0, the default: each engine does both.
	PrefillEngines int
	// Model is the speed of each engine.
	Model Model
	// Pace, if set, replaces the engines: each endpoint sends in a steady rhythm.
	Pace Pace
	// Seed determines everything random: early ends, faults and jitter. Random numbers of a request depend on its
	// X-Request-Id, so that the same IDs have the same fate in any order. Without an ID they depend on the request's
	// number at the endpoint.
	Seed uint64

	// ModelName is the model served. Requests for another name get 404. Empty, the default: every name is served.
	ModelName string
	// APIKey is the bearer token that requests must carry. Others get 401. Empty: no key is required.
	APIKey string
	// Protocol is the protocol that Start speaks.
	Protocol Protocol
	// AllowRemote lets Start listen on addresses that are not loopback. A simulator should not be left on a network.
	AllowRemote bool
	// MaxBodyBytes is the maximum length of a request body. Longer ones get 413. Default 64 MiB.
	MaxBodyBytes int64
	// MaxModelTokens is the maximum of prompt and output together. Longer requests get 400. 0, the default: no limit.
	MaxModelTokens int
	// DefaultOutputTokens is the output limit of a request that gives none. Default 16, as in OpenAI's completions.
	DefaultOutputTokens int
	// ChatTemplateTokens is the number of tokens that a chat template adds to the words of a conversation. Default 0.
	ChatTemplateTokens int
	// EarlyEOS ends the output at a random length between min_tokens (at least 1) and max_tokens, all equally likely,
	// unless the request says ignore_eos. It takes precedence over OutputLength. Default: the output is exactly
	// max_tokens long.
	EarlyEOS bool
	// OutputLength is the length of outputs that end by themselves.
	OutputLength OutputLength
	// Textless is which tokens have no text.
	Textless Textless
	// Dialect is how the server introduces itself, and how it handles request fields that only some servers know.
	Dialect Dialect

	// Frames is the shape of the stream.
	Frames Frames
	// Faults are tried in this order for each request. The first one that strikes is the request's only fault.
	Faults []Fault
	// Truth is what is recorded about the frames sent.
	Truth Truth
}

// Model is the speed of one engine.
type Model struct {
	// PrefillTokensPerSecond is the prefill speed for one prompt at a time. +Inf: prefill takes no time. Default
	// 50,000.
	PrefillTokensPerSecond float64
	// DecodeStep is the time of a decode step with one request. Default 5 ms.
	DecodeStep time.Duration
	// DecodeStepPerRequest is the time that each further request adds to the step. Default 50 us.
	DecodeStepPerRequest time.Duration
	// MaxRunning is the maximum number of requests in prefill and decode together, or in decode alone with
	// disaggregated serving. The rest queue. Default 256.
	MaxRunning int
	// PrefillInterference is the share of its decoding pace that an engine loses while it prefills, 0 to 1. 1 is an
	// engine that does one of the two at a time, prefill first. Disaggregated engines lose none. Default 0.
	PrefillInterference float64
	// TransferPerThousandTokens is how long a disaggregated prefill engine takes to hand over the KV cache of 1,000
	// prompt tokens, before the first token. Default 0.
	TransferPerThousandTokens time.Duration
	// TransferInterference is the share of their decoding pace that the decode engines of a disaggregated group lose
	// while a KV cache is handed over, 0 to 1. 1 is an engine that stands still while it receives one. Default 0.
	TransferInterference float64
	// PrefillFirst lets a disaggregated prefill engine take all waiting prompts before it hands over the KV caches of
	// the finished ones. These are handed over together, and the decode engines lose TransferInterference from the end
	// of the first prefill on. Default: each KV cache is handed over before the next prompt is taken.
	PrefillFirst bool
	// PrefillPerPrompt is the time that each prompt occupies its prefill engine in addition to the time for its tokens.
	// Default 0.
	PrefillPerPrompt time.Duration
	// PrefillSharing lets prompts share the prefill engines by time slices: all prompts are in prefill at once, and
	// each gets its share. Default: each engine prefills one prompt at a time, first come, first served.
	PrefillSharing bool
	// Overhead is the time before each request is queued for prefill. It occupies nothing. Default 0.
	Overhead time.Duration
	// PrefillJitter and StepJitter are the coefficients of variation of a lognormal factor with mean 1 on the time of
	// each prefill and of each decode step. The factor of a request's prefill depends only on Config.Seed and the
	// X-Request-Id. Default 0.
	PrefillJitter, StepJitter float64
	// StallShare is the chance that a decode step takes Stall longer. Default 0.
	StallShare float64
	Stall      time.Duration
	// CacheBlocks is the size of each prefill engine's prefix cache, in blocks of CacheBlockTokens tokens (default 16).
	// 0, the default: there is no cache.
	CacheBlocks, CacheBlockTokens int
	// SpreadStep produces the tokens of a step evenly over its time, the last one at its end. Default: all at its end,
	// as in real engines.
	SpreadStep bool
}

// Truth is what is recorded about the frames sent.
type Truth struct {
	// Stamp adds "sent_ns" to each object sent: clock.Now just before the write.
	Stamp bool
	// Keep holds a Record of each request in memory, for Records. The memory grows without bound: for tests.
	Keep bool
	// Tokens adds to each Record the send time of every token frame.
	Tokens bool
	// Log receives each Record as a line of JSON when its request has ended, with one Write each, never concurrently.
	// The caller closes it, after the simulator. Nil: no log.
	Log io.Writer
}

// Default returns the default configuration.
func Default() Config {
	return Config{
		Endpoints:           1,
		Replicas:            1,
		Model:               defaultModel(),
		MaxBodyBytes:        64 << 20,
		DefaultOutputTokens: 16,
		Dialect:             Dialect{OwnedBy: "spate", TokenIDs: Ignored},
		Frames:              Frames{Role: RoleWithFirstToken, TokensPerFrame: 1},
	}
}

func defaultModel() Model {
	return Model{
		PrefillTokensPerSecond: 50_000,
		DecodeStep:             5 * time.Millisecond,
		DecodeStepPerRequest:   50 * time.Microsecond,
		MaxRunning:             256,
		CacheBlockTokens:       16,
	}
}

// FromPlan returns the configuration of a plan's simulated target: Default, overridden by what the plan sets. A
// duration that the plan sets to zero is zero. A nil target gives Default.
func FromPlan(t *spatev1.SimulatedTarget) Config {
	c := Default()
	if n := t.GetEndpoints(); n > 0 {
		c.Endpoints = int(n)
	}
	if r := t.GetPrefillTokensPerSecond(); r > 0 {
		c.Model.PrefillTokensPerSecond = r
	}
	if d := t.GetDecodeStep(); d != nil {
		c.Model.DecodeStep = d.AsDuration()
	}
	if d := t.GetDecodeStepPerRequest(); d != nil {
		c.Model.DecodeStepPerRequest = d.AsDuration()
	}
	if n := t.GetMaxRunning(); n > 0 {
		c.Model.MaxRunning = int(n)
	}
	if n := t.GetReplicas(); n > 0 {
		c.Replicas = int(n)
	}
	if n := t.GetTokensPerFrame(); n > 0 {
		c.Frames.TokensPerFrame = int(n)
	}
	if p := t.GetErrorShare(); p > 0 {
		c.Faults = []Fault{{Kind: FaultServerError, Probability: p}}
	}
	c.PrefillEngines = int(t.GetPrefillEngines())
	c.MaxModelTokens = int(t.GetMaxModelTokens())
	c.Model.PrefillInterference = t.GetPrefillInterference()
	c.Model.TransferPerThousandTokens = t.GetTransferPerThousandTokens().AsDuration()
	c.Model.TransferInterference = t.GetTransferInterference()
	c.Model.PrefillFirst = t.GetPrefillFirst()
	c.Model.Overhead = t.GetOverhead().AsDuration()
	c.ReplicaSpread = t.GetReplicaSpread()
	c.Model.PrefillPerPrompt = t.GetPrefillPerPrompt().AsDuration()
	c.Model.PrefillSharing = t.GetPrefillSharing()
	c.Model.PrefillJitter, c.Model.StepJitter = t.GetPrefillJitter(), t.GetStepJitter()
	c.Model.StallShare, c.Model.Stall = t.GetStallShare(), t.GetStall().AsDuration()
	c.Model.CacheBlocks = int(t.GetCacheBlocks())
	if n := t.GetCacheBlockTokens(); n > 0 {
		c.Model.CacheBlockTokens = int(n)
	}
	c.answersFromPlan(t)
	c.dialectFromPlan(t)
	if k := t.GetSpeed(); k > 0 {
		c.Model.SpeedUp(k)
	}
	return c
}

// answersFromPlan sets the shape of the answers from a plan.
func (c *Config) answersFromPlan(t *spatev1.SimulatedTarget) {
	c.OutputLength = OutputLength{MeanShare: t.GetOutputShare(), Mean: t.GetOutputMean(), Stddev: t.GetOutputStddev()}
	c.Textless.Share = t.GetTextlessShare()
	c.Frames.ReasoningTokens = int(t.GetReasoningTokens())
	c.Frames.ReasoningField = t.GetReasoningField()
	c.Frames.NoReasoningUsage = t.GetReasoningUntold()
	c.Frames.Deliver = Delivery(t.GetDeliver())
}

// dialectFromPlan sets the server's dialect from a plan.
func (c *Config) dialectFromPlan(t *spatev1.SimulatedTarget) {
	c.ChatTemplateTokens = int(t.GetChatTemplateTokens())
	c.Dialect.OwnedBy = cmp.Or(t.GetOwnedBy(), c.Dialect.OwnedBy)
	c.Dialect.NoTokenize = t.GetNoTokenize()
	c.Dialect.ExactOutput = FieldHandling(t.GetExactOutput())
	c.Dialect.ContinuousUsage = FieldHandling(t.GetContinuousUsage())
}

// SpeedUp makes the pace k times faster.
func (p *Pace) SpeedUp(k float64) {
	p.FirstToken, p.BetweenTokens = nanoseconds(float64(p.FirstToken)/k), nanoseconds(float64(p.BetweenTokens)/k)
}

// SpeedUp makes the engine k times faster in everything it does.
func (m *Model) SpeedUp(k float64) {
	m.PrefillTokensPerSecond *= k
	for _, d := range []*time.Duration{
		&m.DecodeStep, &m.DecodeStepPerRequest, &m.TransferPerThousandTokens, &m.PrefillPerPrompt,
		&m.Overhead, &m.Stall,
	} {
		*d = nanoseconds(float64(*d) / k)
	}
}

// engineModel returns the model of one engine. number counts the engines of all endpoints from 0.
func (c *Config) engineModel(number int) Model {
	m := c.Model
	if last := c.Endpoints*c.Replicas - 1; c.ReplicaSpread > 0 && last > 0 {
		m.SpeedUp(1 / (1 + c.ReplicaSpread*float64(number)/float64(last)))
	}
	return m
}

// newEngine returns one of the engines, or groups of engines, of all endpoints, numbered from 0.
func (c *Config) newEngine(number int, now clock.Instant) engine {
	e := newEngine(c.engineModel(number), c.PrefillEngines, c.Replicas, now)
	for i := range e.decoders {
		e.decoders[i].noise = e.model.stepNoise(c.Seed+uint64(number), i)
	}
	return e
}

// loops returns the number of engines or groups behind an endpoint. Each runs in its own loop.
func (c *Config) loops() int {
	if c.PrefillEngines > 0 || c.Pace.set() {
		return 1
	}
	return c.Replicas
}

// Validate returns all errors of the configuration, joined, or nil.
func (c *Config) Validate() error {
	errs := []error{
		checkAtLeast("Endpoints", c.Endpoints, 1),
		checkAtLeast("Replicas", c.Replicas, 1),
		checkAtLeast("PrefillEngines", c.PrefillEngines, 0),
		checkFinite("ReplicaSpread", c.ReplicaSpread),
		checkAtLeast("MaxBodyBytes", c.MaxBodyBytes, 1),
		checkAtLeast("MaxModelTokens", c.MaxModelTokens, 0),
		checkAtLeast("DefaultOutputTokens", c.DefaultOutputTokens, 1),
		checkAtLeast("ChatTemplateTokens", c.ChatTemplateTokens, 0),
		c.Model.validate(),
		c.Pace.validate(),
		c.Protocol.validate(),
		c.OutputLength.validate(),
		c.Textless.validate(),
		c.Dialect.validate(),
		c.Frames.validate(),
	}
	for i := range c.Faults {
		if err := c.Faults[i].validate(); err != nil {
			errs = append(errs, fmt.Errorf("simulator: Faults[%d]: %w", i, err))
		}
	}
	if c.ReplicaSpread > 0 && c.PrefillEngines > 0 {
		errs = append(errs, errors.New("simulator: ReplicaSpread and PrefillEngines are both set: give one of them, "+
			"because the replicas of a disaggregated group are equal"))
	}
	return errors.Join(errs...)
}

func (m *Model) validate() error {
	errs := []error{
		checkAtLeast("Model.DecodeStep", m.DecodeStep, 0),
		checkAtLeast("Model.DecodeStepPerRequest", m.DecodeStepPerRequest, 0),
		checkAtLeast("Model.MaxRunning", m.MaxRunning, 1),
		checkAtLeast("Model.TransferPerThousandTokens", m.TransferPerThousandTokens, 0),
		checkAtLeast("Model.PrefillPerPrompt", m.PrefillPerPrompt, 0),
		checkAtLeast("Model.Overhead", m.Overhead, 0),
		checkFinite("Model.PrefillJitter", m.PrefillJitter),
		checkFinite("Model.StepJitter", m.StepJitter),
		checkAtLeast("Model.Stall", m.Stall, 0),
		checkAtLeast("Model.CacheBlocks", m.CacheBlocks, 0),
	}
	if m.CacheBlocks > 0 {
		errs = append(errs, checkAtLeast("Model.CacheBlockTokens", m.CacheBlockTokens, 1))
	}
	errs = append(errs, checkShare("Model.PrefillInterference", m.PrefillInterference),
		checkShare("Model.TransferInterference", m.TransferInterference),
		checkShare("Model.StallShare", m.StallShare))
	if m.PrefillFirst && m.PrefillSharing {
		errs = append(errs, errors.New("simulator: Model.PrefillFirst and Model.PrefillSharing are both set: "+
			"give one of them, because shared prefill has no queue"))
	}
	if !(m.PrefillTokensPerSecond > 0) {
		errs = append(errs, fmt.Errorf("simulator: Model.PrefillTokensPerSecond is %v: give a number above 0, "+
			"+Inf for a prefill that takes no time", m.PrefillTokensPerSecond))
	}
	return errors.Join(errs...)
}

// checkShare returns an error if v is not from 0 to 1.
func checkShare(field string, v float64) error {
	if v >= 0 && v <= 1 {
		return nil
	}
	return fmt.Errorf("simulator: %s is %v: give 0 to 1", field, v)
}

// checkAtLeast returns an error if v is below least.
func checkAtLeast[T int | int64 | time.Duration](field string, v, least T) error {
	if v >= least {
		return nil
	}
	return fmt.Errorf("simulator: %s is %v: give at least %v", field, v, least)
}
