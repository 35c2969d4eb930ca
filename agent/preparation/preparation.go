// Package preparation finds out about a target before load is sent there: how prompts get their exact length, how many tokens the server
// adds to them, whether outputs have the length that is asked for, and what the server is.
//
// It asks the target's first endpoint, and nothing else: all endpoints are taken for the same deployment. It decides by the answers and
// by fixed lists alone, so that all agents that prepare the same stage find the same. It changes nothing at the server, but with
// "server" and "usage" it sends it a bounded number of small requests. It keeps no state and knows neither clocks nor
// schedules. The agent calls it once an assignment, before it says that it is ready.
package preparation

import (
	"context"
	"fmt"
	"time"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// Client is what Find asks of a target's client. *stream.Client is one.
type Client interface {
	// Form is how prompts are written.
	Form() workload.Form
	// Models lists what an endpoint serves.
	Models(ctx context.Context, endpoint int) ([]stream.Model, error)
	// Version is that of an endpoint's software.
	Version(ctx context.Context, endpoint int) (string, error)
	// Tokenize counts the tokens of a text.
	Tokenize(ctx context.Context, endpoint int, text string) (stream.Tokens, error)
	// TokenizeChat counts the tokens of a chat of one message.
	TokenizeChat(ctx context.Context, endpoint int, text string) (stream.Tokens, error)
	// Measure counts the prompt of a request by what the server says it used.
	Measure(ctx context.Context, endpoint int, text string) (uint64, error)
}

// Found is what there is to know about a target.
type Found struct {
	// Preparation is what the results say of it. Never nil.
	Preparation *spatev1.Preparation
	// Words that are one token each, for prompts of text. Empty: the workload's own.
	Words []string
	// Template is how many tokens the server adds to each prompt. 0 if that is not known, too.
	Template uint32
}

// limit is the longest that Find takes: time for all that it may send, one after another, to a server that takes half a second for each.
const limit = time.Minute

// endpoint is the one that is asked.
const endpoint = 0

// Find prepares a stage. What cannot be found out is a note for people, not an error, unless the plan asks for it: with the target's
// tokenizer "server" or "usage", an error says why lengths cannot be made exact. It is an error, too, if the stage lacks the words of a
// "file:" tokenizer. Find blocks, at most a minute.
func Find(ctx context.Context, client Client, stage *spatev1.Stage) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f := &finder{client: client, stage: stage, found: Found{Preparation: &spatev1.Preparation{}}}
	f.server(ctx)
	if err := f.lengths(ctx); err != nil {
		return Found{}, fmt.Errorf("target %s: %w", stage.GetTarget().GetName(), err)
	}
	f.output()
	return f.found, nil
}

// finder is one call of Find.
type finder struct {
	client Client
	stage  *spatev1.Stage
	owner  string // of the model, as the server says it
	silent bool   // the endpoint cannot be reached
	found  Found
}

// note adds a sentence for people.
func (f *finder) note(format string, args ...any) {
	f.found.Preparation.Notes = append(f.found.Preparation.Notes, fmt.Sprintf(format, args...))
}

// api is the API of the target.
func (f *finder) api() string { return f.stage.GetTarget().GetApi() }

// bodyField returns a field of the bodies that the plan gives.
func (f *finder) bodyField(name string) any {
	return f.stage.GetTarget().GetBody().AsMap()[name]
}
