package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// Treatment is what a server does with a part of a request that not all servers know.
type Treatment string

// The treatments.
const (
	Honoured Treatment = "honoured"
	Ignored  Treatment = "ignored"
	Refused  Treatment = "refused" // with 400
)

var treatments = []Treatment{Honoured, Ignored, Refused}

// take returns whether what was asked for is given, or why the request is refused. field is what it is called.
func (t Treatment) take(field string, asked bool) (bool, *apiError) {
	if asked && t == Refused {
		return false, unknownParameter(field)
	}
	return asked && t != Ignored, nil
}

// Manners is how a server introduces itself, and what it does with what only some servers know. The zero value is a
// server that names no owner and honours everything but nvext.
type Manners struct {
	// OwnedBy is owned_by of /v1/models: "vllm", "nvidia" for Dynamo, "openai" for LiteLLM. Default "spate".
	OwnedBy string
	// NoTokenize answers /tokenize with 404, as most servers do. Default: it is there, as in vLLM.
	NoTokenize bool
	// ExactOutput is what becomes of ignore_eos and min_tokens, under whatever names an API has them. Default Honoured.
	ExactOutput Treatment
	// ContinuousUsage is what becomes of stream_options.continuous_usage_stats in chat and completions. Honoured, the
	// default: usage so far in each frame, if include_usage is asked for too. Refused: so is every other option that
	// OpenAI does not know.
	ContinuousUsage Treatment
	// TokenIDs is what becomes of return_token_ids in chat and completions. Honoured: token_ids in each choice. Default
	// Ignored.
	TokenIDs Treatment
	// NVExt answers a chat's or completions' nvext.extra_fields of "timing" and "worker_id", as Dynamo does. Default
	// off.
	NVExt bool
}

func (m *Manners) validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value Treatment
	}{{"ExactOutput", m.ExactOutput}, {"ContinuousUsage", m.ContinuousUsage}, {"TokenIDs", m.TokenIDs}} {
		if !slices.Contains(append(treatments, ""), f.value) {
			errs = append(errs, fmt.Errorf("simulator: Manners.%s is %q: give one of %q", f.name, f.value, treatments))
		}
	}
	return errors.Join(errs...)
}

// exactOutput applies Manners.ExactOutput to a request.
func (m *Manners) exactOutput(q *request) *apiError {
	var problem *apiError
	if q.ignoreEOS, problem = m.ExactOutput.take("ignore_eos", q.ignoreEOS); problem != nil {
		return problem
	}
	least, problem := m.ExactOutput.take("min_tokens", q.minTokens > 0)
	if !least {
		q.minTokens = 0
	}
	return problem
}

// streamOptions reads a request's stream_options.
func (q *request) streamOptions(m *Manners, raw json.RawMessage) *apiError {
	if kindOf(raw) == 0 || kindOf(raw) == 'n' {
		return nil
	}
	var options struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	}
	if json.Unmarshal(raw, &options) != nil {
		return badRequest("stream_options is not an object of options that are true or false")
	}
	if m.ContinuousUsage == Refused {
		if name := unknownOption(raw); name != "" {
			return unknownParameter("stream_options." + name)
		}
	}
	q.includeUsage = options.IncludeUsage
	q.continuousUsage = options.IncludeUsage && options.ContinuousUsageStats && m.ContinuousUsage != Ignored
	return nil
}

// unknownOption returns the first stream option, by name, that OpenAI's API does not have, "" if it has all.
func unknownOption(raw json.RawMessage) string {
	var options map[string]json.RawMessage
	_ = json.Unmarshal(raw, &options) // an object: it was read before
	var unknown []string
	for name := range options {
		if name != "include_usage" && name != "include_obfuscation" {
			unknown = append(unknown, name)
		}
	}
	sort.Strings(unknown)
	if len(unknown) == 0 {
		return ""
	}
	return unknown[0]
}
