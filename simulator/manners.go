package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// FieldHandling is how a server handles a request field that not all servers know.
type FieldHandling string

// The values of FieldHandling.
const (
	Honoured FieldHandling = "honoured"
	Ignored  FieldHandling = "ignored"
	Refused  FieldHandling = "refused" // with 400
)

var fieldHandlings = []FieldHandling{Honoured, Ignored, Refused}

// apply reports whether a requested field is honoured, or returns the error if the request is refused. field is its
// name.
func (h FieldHandling) apply(field string, asked bool) (bool, *apiError) {
	if asked && h == Refused {
		return false, unknownParameter(field)
	}
	return asked && h != Ignored, nil
}

// Dialect is how a server introduces itself, and how it handles request fields that only some servers know. The zero
// value is a server that names no owner and honours everything but nvext.
type Dialect struct {
	// OwnedBy is owned_by of /v1/models: "vllm", "nvidia" for Dynamo, "openai" for LiteLLM. Default "spate".
	OwnedBy string
	// NoTokenize answers /tokenize with 404, as most servers do. Default: the path exists, as in vLLM.
	NoTokenize bool
	// ExactOutput is the handling of ignore_eos and min_tokens, under whatever names an API has for them. Default
	// Honoured.
	ExactOutput FieldHandling
	// ContinuousUsage is the handling of stream_options.continuous_usage_stats in chat and completions. Honoured, the
	// default: each frame has the usage so far, if include_usage is requested too. Refused: every other option that
	// OpenAI does not know is refused too.
	ContinuousUsage FieldHandling
	// TokenIDs is the handling of return_token_ids in chat and completions. Honoured: each choice has token_ids.
	// Default Ignored.
	TokenIDs FieldHandling
	// NVExt answers nvext.extra_fields "timing" and "worker_id" of a chat or completions request, as Dynamo does.
	// Default off.
	NVExt bool
}

func (d *Dialect) validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value FieldHandling
	}{{"ExactOutput", d.ExactOutput}, {"ContinuousUsage", d.ContinuousUsage}, {"TokenIDs", d.TokenIDs}} {
		if !slices.Contains(append(fieldHandlings, ""), f.value) {
			errs = append(errs, fmt.Errorf("simulator: Dialect.%s is %q: give one of %q",
				f.name, f.value, fieldHandlings))
		}
	}
	return errors.Join(errs...)
}

// exactOutput applies Dialect.ExactOutput to a request.
func (d *Dialect) exactOutput(q *request) *apiError {
	var problem *apiError
	if q.ignoreEOS, problem = d.ExactOutput.apply("ignore_eos", q.ignoreEOS); problem != nil {
		return problem
	}
	least, problem := d.ExactOutput.apply("min_tokens", q.minTokens > 0)
	if !least {
		q.minTokens = 0
	}
	return problem
}

// streamOptions reads a request's stream_options.
func (q *request) streamOptions(d *Dialect, raw json.RawMessage) *apiError {
	if kindOf(raw) == 0 || kindOf(raw) == 'n' {
		return nil
	}
	var options struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	}
	if json.Unmarshal(raw, &options) != nil {
		return badRequest("stream_options is not an object of booleans")
	}
	if d.ContinuousUsage == Refused {
		if name := unknownOption(raw); name != "" {
			return unknownParameter("stream_options." + name)
		}
	}
	q.includeUsage = options.IncludeUsage
	q.continuousUsage = options.IncludeUsage && options.ContinuousUsageStats && d.ContinuousUsage != Ignored
	return nil
}

// unknownOption returns the first stream option, by name, that OpenAI's API does not have, or "".
func unknownOption(raw json.RawMessage) string {
	var options map[string]json.RawMessage
	_ = json.Unmarshal(raw, &options) // an object: it was parsed before
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
