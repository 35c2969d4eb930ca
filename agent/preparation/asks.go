package preparation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spate-load/spate/agent/stream"
)

// askFields are the fields of bodies that ask for more than text. Those of one list need each other.
var askFields = [][]string{
	{"tools", "tool_choice", "parallel_tool_calls"}, {"response_format"}, {"structured_outputs"}, {"guided_json"},
	{"guided_regex"}, {"guided_choice"}, {"guided_grammar"}, {"text"}, {"output_config"}, {"output_format"},
}

// asks returns an error if the server refuses requests because of a field that asks for tools or for the form of an
// answer: all requests of the stage would fail. It names the field.
func (f *finder) asks(ctx context.Context) error {
	asked := f.asked()
	if len(asked) == 0 || f.accepted || f.unreachable || !f.api().Trials {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	if _, err := f.attempt(ctx, stream.TrialRequest{}); !stream.Refused(err) {
		return nil
	}
	if _, err := f.attempt(ctx, stream.TrialRequest{Without: slices.Concat(asked...)}); err != nil {
		return nil // the plan asks for nothing that makes the difference
	}
	for i, fields := range asked {
		others := slices.Delete(slices.Clone(asked), i, i+1)
		if _, err := f.attempt(ctx, stream.TrialRequest{Without: slices.Concat(others...)}); stream.Refused(err) {
			return fmt.Errorf("the server refuses requests with %s, and takes them without: %w",
				strings.Join(fields, " and "), err)
		}
	}
	return nil
}

// asked returns those of askFields that the target's body has.
func (f *finder) asked() (all [][]string) {
	body := slices.Collect(maps.Keys(f.stage.GetTarget().GetBody().GetFields()))
	for _, fields := range askFields {
		fields = slices.DeleteFunc(slices.Clone(fields), func(name string) bool { return !slices.Contains(body, name) })
		if len(fields) > 0 {
			all = append(all, fields)
		}
	}
	return all
}
