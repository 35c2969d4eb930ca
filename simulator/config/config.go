// Package config holds what can be set of a simulator: the deployment and its speed, the shape of its answers, its
// faults, and what is recorded. It knows nothing of how these are done.
package config

import (
	"errors"
	"fmt"
	"slices"
)

// Config configures a simulator. Default returns the defaults; zero fields mean zero. Config holds secrets (APIKey,
// AWSSecret): do not print it. Its tags declare the flags of `spate simulate`.
type Config struct {
	// Endpoints is the number of endpoints that Start serves if it is given no addresses. Default 1.
	Endpoints int
	// Replicas is the number of equal engines behind one endpoint. A request goes to the engine with the fewest
	// requests in flight, the first among equals. Default 1.
	Replicas int `group:"engines" flag:"replicas" help:"equal engines; with --prefill-engines those that decode"`
	// ReplicaSpread is how much slower the last engine is than the first, as a share, counted over all endpoints. The
	// engines between lie evenly between them. Not for use with PrefillEngines. Default 0: all are equal.
	ReplicaSpread float64 `group:"engines" flag:"replica-spread" help:"how much slower the last engine is than the first, as a <share>; the others are evenly between"`
	// ReplicaSkew is how unevenly ReplicaSpread is spaced: above 0 few engines are slow. Default 0: evenly.
	ReplicaSkew float64 `group:"engines" flag:"replica-skew" help:"how unevenly that is spaced, a <number>: above 0 few engines are slow, and most near the first"`
	// PrefillEngines makes an endpoint a disaggregated group: this number of engines prefill, from one queue, and the
	// Replicas decode. 0, the default: each engine does both.
	PrefillEngines int `group:"engines" flag:"prefill-engines" help:"engines that only prefill, so that the replicas only decode (default: each does both)"`
	// Model is the speed of each engine.
	Model Model `group:"engines"`
	// Pace, if set, replaces the engines: each endpoint sends in a steady rhythm.
	Pace Pace
	// Processors is the number of processors that send the frames of one instant of an engine. The more there are, the
	// closer together the frames are sent, and the more streams one engine can serve. Default 1.
	Processors int `group:"served" flag:"processors" help:"processors that send the frames of one instant (default: all but one, which reads requests)"`
	// Seed determines everything random: early ends, faults and jitter. Random numbers of a request depend on its
	// X-Request-Id, so that the same IDs have the same fate in any order. Without an ID they depend on the request's
	// number at the endpoint.
	Seed uint64 `group:"answers" flag:"seed" help:"seed of faults, early ends, tokens without text, jitter and stalls"`

	// ModelName is the model served. Requests for another name get 404. Empty, the default: every name is served.
	ModelName string `group:"served" flag:"model" help:"model <name> to serve (default: every name)"`
	// Adapters are names of models that are served besides ModelName, such as those of LoRA adapters.
	Adapters []string
	// APIKey is the bearer token that requests must carry. Others get 401. Empty: no key is required.
	APIKey string
	// AWSSecret is the secret access key with which requests to Bedrock's API must be signed (Signature Version 4),
	// unless they carry APIKey. Others get 403. Empty: any signature is accepted if there is no APIKey either.
	AWSSecret string
	// Protocol is the protocol that Start speaks.
	Protocol Protocol `group:"served"`
	// AllowRemote lets Start listen on addresses that are not loopback. A simulator should not be left on a network.
	AllowRemote bool `group:"served" flag:"allow-remote" help:"allow addresses beyond loopback: a simulator is not a server to leave on a network"`
	// MaxBodyBytes is the maximum length of a request body. Longer ones get 413. Default 64 MiB.
	MaxBodyBytes int64
	// MaxModelTokens is the maximum of prompt and output together. Longer requests get 400. 0, the default: no limit.
	MaxModelTokens int `group:"served" flag:"max-model-tokens" help:"longest prompt and output together, as reported by /v1/models (default: no limit)"`
	// DefaultOutputTokens is the output limit of a request that gives none. Default 16, as in OpenAI's completions.
	DefaultOutputTokens int
	// ChatTemplateTokens is the number of tokens that a chat template adds to the words of a conversation. Default 0.
	ChatTemplateTokens int `group:"dialect" flag:"chat-template-tokens" help:"<tokens> that the chat template adds to a conversation"`
	// EarlyEOS ends the output at a random length between min_tokens (at least 1) and max_tokens, all equally likely,
	// unless the request says ignore_eos. It takes precedence over OutputLength. Default: the output is exactly
	// max_tokens long.
	EarlyEOS bool `group:"answers" flag:"early-eos" help:"end outputs at random lengths, all equally likely, unless a request says ignore_eos"`
	// OutputLength is the length of outputs that end by themselves.
	OutputLength OutputLength `group:"answers"`
	// Textless is which tokens have no text.
	Textless Textless `group:"answers"`
	// Dialect is how the server introduces itself, and how it handles request fields that only some servers know.
	Dialect Dialect `group:"dialect"`

	// Frames is the shape of the stream.
	Frames Frames `group:"frames"`
	// Faults are tried in this order for each request. The first one that strikes is the request's only fault.
	Faults []Fault
	// Truth is what is recorded about the frames sent.
	Truth Truth `group:"truth"`
}

// Default returns the default configuration.
func Default() Config {
	return Config{
		Endpoints:           1,
		Replicas:            1,
		Processors:          1,
		Model:               defaultModel(),
		MaxBodyBytes:        64 << 20,
		DefaultOutputTokens: 16,
		Dialect:             Dialect{OwnedBy: "spate", TokenIDs: Ignored},
		Frames:              Frames{Role: RoleWithFirstToken, TokensPerFrame: 1},
	}
}

// Validate returns all errors of the configuration, joined, or nil.
func (c *Config) Validate() error {
	errs := []error{
		checkAtLeast("Endpoints", c.Endpoints, 1),
		checkAtLeast("Replicas", c.Replicas, 1),
		checkAtLeast("PrefillEngines", c.PrefillEngines, 0),
		checkAtLeast("Processors", c.Processors, 1),
		checkFinite("ReplicaSpread", c.ReplicaSpread),
		checkFinite("ReplicaSkew", c.ReplicaSkew),
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

// Loops returns the number of engines or groups behind an endpoint. Each runs in its own loop.
func (c *Config) Loops() int {
	if c.PrefillEngines > 0 || c.Pace.Set() {
		return 1
	}
	return c.Replicas
}

// Serves reports whether a model is served under a name.
func (c *Config) Serves(name string) bool {
	return c.ModelName == "" || name == c.ModelName || slices.Contains(c.Adapters, name)
}

// ServedName returns the name to show for the model served.
func (c *Config) ServedName() string {
	if c.ModelName != "" {
		return c.ModelName
	}
	return "simulated"
}
