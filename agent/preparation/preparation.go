// Package preparation finds out about a target before load is sent there: how prompts get their exact length, how many
// tokens the server adds to them, whether outputs can be forced to a length, whether the server tells the usage so far
// in each frame, and what the server is.
//
// It tries rather than trusts names: short requests show what a server does with a field. Everything is asked of the
// target's first endpoint; the others are asked for their models and versions only, so that a difference is told. What
// it finds depends on the answers alone, so all agents that prepare the same stage find the same. It changes nothing at
// the server and sends a bounded number of small requests. It keeps no state and knows neither schedules nor results.
// The agent calls it before it says that it is ready for a stage.
package preparation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// Client is what Find asks of a target's client. *stream.Client is one. All methods may be called concurrently.
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
	// Try shows what the server makes of a short request.
	Try(ctx context.Context, endpoint int, a stream.Attempt) (stream.Trial, error)
}

// Found is what there is to know about a target.
type Found struct {
	// Preparation is what the results say of it. Never nil.
	Preparation *spatev1.Preparation
	// Words that are one token each behind a space, for prompts of text. Empty: the workload's own.
	Words []string
	// First are words that are one token each at the start of a prompt. Empty: Words.
	First []string
	// Lines are the lengths of a sonnet's lines in tokens. Empty: not counted.
	Lines []uint32
	// Template is how many tokens the server adds to each prompt. 0 if that is not known, too.
	Template uint32
}

const (
	// limit is the longest that Find takes.
	limit = time.Minute
	// lengthsLimit and trialLimit are the longest that the defaults may take to find out about lengths and about
	// outputs. Whatever is not known by then is as if it could not be found out.
	lengthsLimit = 25 * time.Second
	trialLimit   = 15 * time.Second
)

// endpoint is the one that is asked.
const endpoint = 0

// Find prepares a stage. Lines returns those of a sonnet's text; it may be nil for other workloads. What cannot be
// found out is a note for people, and no error, unless the plan asks for it: with the target's tokenizer "server" or
// "usage", an error says why lengths cannot be made exact. It is an error, too, if the stage lacks the words of a
// "file:" tokenizer, or its lines cannot be read. Fields of the target that plans fill in with "auto" are tried; where
// they are empty, as in stages that no plan made, nothing is. Find blocks, at most a minute.
func Find(ctx context.Context, client Client, stage *spatev1.Stage, lines func() ([]workload.Line, error)) (Found,
	error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f := &finder{client: client, stage: stage, lines: lines, found: Found{Preparation: &spatev1.Preparation{}}}
	f.server(ctx)
	f.output(ctx)
	if err := f.lengths(ctx); err != nil {
		return Found{}, fmt.Errorf("target %s: %w", stage.GetTarget().GetName(), err)
	}
	f.found.Preparation.Requests = f.asked
	return f.found, nil
}

// finder is one call of Find.
type finder struct {
	client Client
	stage  *spatev1.Stage
	lines  func() ([]workload.Line, error)
	owner  string // of the model, as the server says it
	silent bool   // the endpoint cannot be reached
	broken bool   // it does not answer a plain request
	found  Found

	mu    sync.Mutex // guards what follows, and found.Preparation.MaxModelTokens
	asked uint32     // requests so far
}

// note adds a sentence for people.
func (f *finder) note(format string, args ...any) {
	f.found.Preparation.Notes = append(f.found.Preparation.Notes, fmt.Sprintf(format, args...))
}

// ask counts a request.
func (f *finder) ask() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
}

// api is the API of the target.
func (f *finder) api() string { return f.stage.GetTarget().GetApi() }

// bodyField returns a field of the bodies that the plan gives.
func (f *finder) bodyField(name string) any {
	return f.stage.GetTarget().GetBody().AsMap()[name]
}

// Short says that prompts of a workload are asked to be shorter than they can be where the server adds so many tokens.
// Empty: they are not, or it cannot be told.
func Short(w *spatev1.Workload, template uint32) string {
	least := template + 1
	if shortest, known := workload.Shortest(w); !known || shortest >= least {
		return ""
	}
	return fmt.Sprintf("The server adds %d tokens to each prompt, so none can have fewer than %d: prompts that were asked to be shorter have %d.",
		template, least, least)
}

// Kind is what of a workload decides what has to be found out.
type Kind byte

const (
	// Words are prompts of as many tokens as they are asked to have.
	Words Kind = iota
	// Lines are prompts of the whole lines of a text.
	Lines
	// Own are prompts whose text is given.
	Own
)

// KindOf returns the kind of a workload.
func KindOf(w *spatev1.Workload) Kind {
	switch w.GetContent().(type) {
	case *spatev1.Workload_Sonnet:
		return Lines
	case *spatev1.Workload_Sharegpt, *spatev1.Workload_Jsonl:
		return Own
	}
	return Words
}
