package api

import (
	"encoding/json"

	"github.com/spate-load/spate/simulator/config"
)

// apply reports whether a requested field is honoured, or returns the error if the request is refused. field is its
// name.
func apply(h config.FieldHandling, field string, asked bool) (bool, *Error) {
	if asked && h == config.Refused {
		return false, unknownParameter(field)
	}
	return asked && h != config.Ignored, nil
}

// ExactOutput applies Dialect.ExactOutput to a request.
func ExactOutput(d *config.Dialect, q *Request) *Error {
	var problem *Error
	if q.IgnoreEOS, problem = apply(d.ExactOutput, "ignore_eos", q.IgnoreEOS); problem != nil {
		return problem
	}
	least, problem := apply(d.ExactOutput, "min_tokens", q.minTokens > 0)
	if !least {
		q.minTokens = 0
	}
	return problem
}

// streamOptions reads a request's stream_options.
func (q *Request) streamOptions(raw json.RawMessage) *Error {
	if kindOf(raw) == 0 || kindOf(raw) == 'n' {
		return nil
	}
	var options struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	}
	if json.Unmarshal(raw, &options) != nil {
		return BadRequest("stream_options is not an object of booleans")
	}
	q.includeUsage = options.IncludeUsage
	q.continuousUsage = options.IncludeUsage && options.ContinuousUsageStats
	return nil
}
