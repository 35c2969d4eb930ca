// Package config holds what can be set of a simulator: the deployment and its speed, the shape of its answers, its
// faults, and what is recorded. It knows nothing of how these are done.
package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
)

// Config configures a simulator. Default returns the defaults; zero fields mean zero. Config holds a secret (APIKey):
// do not print it. Its tags declare flags of `spate simulate`.
type Config struct {
	// Endpoints is the number of endpoints that Start serves if it is given no addresses. Default 1.
	Endpoints int `least:"1" plan:"endpoints"`
	// Replicas is the number of equal engines behind one endpoint. A request goes to the engine with the fewest
	// requests in flight, the first among equals. Default 1.
	Replicas int `least:"1" plan:"replicas"`
	// ReplicaSpread is how much slower the last engine is than the first, as a share, counted over all endpoints. The
	// engines between lie evenly between them. Not for use with PrefillEngines. Default 0: all are equal.
	ReplicaSpread float64 `plan:"replica_spread"`
	// ReplicaSkew is how unevenly ReplicaSpread is spaced: above 0 few engines are slow. Default 0: evenly.
	ReplicaSkew float64 `plan:"replica_skew"`
	// PrefillEngines makes an endpoint a disaggregated group: this number of engines prefill, from one queue, and the
	// Replicas decode. 0, the default: each engine does both.
	PrefillEngines int `plan:"prefill_engines"`
	// Model is the speed of each engine.
	Model Model `group:"Engines" rare:"yes"`
	// Pace, if set, replaces the engines: each endpoint sends in a steady rhythm.
	Pace Pace
	// Seed determines everything random: early ends, faults and jitter. Random numbers of a request depend on its
	// X-Request-Id, so that the same IDs have the same fate in any order. Without an ID they depend on the request's
	// number at the endpoint.
	Seed uint64 `group:"Answers" flag:"seed" help:"seed of faults, early ends, tokens without text, jitter and stalls"`

	// ModelName is the model served. Requests for another name get 404. Empty, the default: every name is served.
	ModelName string `group:"What is served" flag:"model" help:"model <name> to serve (default: every name)"`
	// Adapters are names of models that are served besides ModelName, such as those of LoRA adapters.
	Adapters []string
	// APIKey is the bearer token that requests must carry. Others get 401. Empty: no key is required.
	APIKey string
	// Protocol is the protocol that Start speaks.
	Protocol Protocol `group:"What is served"`
	// AllowRemote lets Start listen on addresses that are not loopback. A simulator should not be left on a network.
	AllowRemote bool `group:"What is served" rare:"yes" flag:"allow-remote" help:"allow addresses beyond loopback: a simulator is not a server to leave on a network"`
	// MaxModelTokens is the maximum of prompt and output together. Longer requests get 400. 0, the default: no limit.
	MaxModelTokens int `plan:"max_model_tokens"`
	// ChatTemplateTokens is the number of tokens that a chat template adds to the words of a conversation. Default 0.
	ChatTemplateTokens int `plan:"chat_template_tokens"`
	// OutputLength is the length of outputs that end by themselves.
	OutputLength OutputLength
	// TextlessShare is the chance of each token to be streamed as a frame with empty text, as engines send halves of
	// characters and special tokens, 0 (default) to 1. In APIs without such frames (responses and Anthropic's messages,
	// as vLLM serves them), these tokens have no frame.
	TextlessShare float64 `most:"1" plan:"textless_share"`
	// WrongShare is the chance of each answer to be wrong, 0 (default) to 1, of requests that make more than WrongAbove
	// in flight at the endpoint, at endpoint WrongEndpoint, counted from 1, or at all of them if that is 0.
	WrongShare    float64 `most:"1" plan:"wrong_share"`
	WrongAbove    int     `plan:"wrong_above"`
	WrongEndpoint int     `plan:"wrong_endpoint"`
	// Dialect is how the server introduces itself, and how it handles request fields that only some servers know.
	Dialect Dialect

	// Frames is the shape of the stream.
	Frames Frames `group:"Answers" rare:"yes"`
	// Faults are tried in this order for each request. The first one that strikes is the request's only fault.
	Faults []Fault
	// Truth is what is recorded about the frames sent.
	Truth Truth `group:"The truth" rare:"yes"`
}

// Default returns the default configuration.
func Default() Config {
	return Config{
		Endpoints: 1,
		Replicas:  1,
		Model:     defaultModel(),
		Dialect:   Dialect{OwnedBy: "spate"},
		Frames:    Frames{Role: RoleWithFirstToken, TokensPerFrame: 1},
	}
}

// fieldName matches the valid values of Frames.ReasoningField.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_]*$`)

// Validate returns all errors of the configuration, joined, or nil.
func (c *Config) Validate() error {
	errs := []error{check("", reflect.ValueOf(c).Elem())}
	for i := range c.Faults {
		errs = append(errs, check(fmt.Sprintf("Faults[%d].", i), reflect.ValueOf(c.Faults[i])))
	}
	for _, wrong := range []struct {
		is   bool
		says string
	}{
		{c.Model.PrefillTokensPerSecond == 0, "Model.PrefillTokensPerSecond is 0: give a number above 0"},
		{c.Model.CacheBlocks > 0 && c.Model.CacheBlockTokens == 0, "Model.CacheBlockTokens is 0: give at least 1"},
		{c.Model.PrefillFirst && c.Model.PrefillSharing, "Model.PrefillFirst and Model.PrefillSharing are both set: " +
			"give one of them, because a shared prefill has no queue to take first"},
		{c.ReplicaSpread > 0 && c.PrefillEngines > 0, "ReplicaSpread and PrefillEngines are both set: give one of " +
			"them, because the replicas of a disaggregated group are equal"},
		{c.Pace.Set() && c.Pace.BetweenTokens == 0, "Pace.BetweenTokens is 0s: give a time above 0"},
		{c.OutputLength.Stddev > 0 && c.OutputLength.Mean == 0, "OutputLength.Stddev is set without " +
			"OutputLength.Mean: give both"},
		{!fieldName.MatchString(c.Frames.ReasoningField), "Frames.ReasoningField is " +
			strconv.Quote(c.Frames.ReasoningField) + ": give a name of letters, digits and _"},
	} {
		if wrong.is {
			errs = append(errs, errors.New("simulator: "+wrong.says))
		}
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
