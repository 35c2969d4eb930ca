package ready

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
)

// targetClient is a client of a target. *stream.Client implements it. All methods may be called concurrently.
type targetClient interface {
	// Form returns the form of prompts.
	Form() workload.Form
	// Models returns the models that an endpoint serves.
	Models(ctx context.Context, endpoint int) ([]api.Model, error)
	// Version returns the version of an endpoint's software.
	Version(ctx context.Context, endpoint int) (string, error)
	// Tokenize returns the number of tokens in a text.
	Tokenize(ctx context.Context, endpoint int, text string) (api.Tokens, error)
	// TokenizeChat returns the number of tokens in a chat of one message.
	TokenizeChat(ctx context.Context, endpoint int, text string) (api.Tokens, error)
	// Measure sends a request and returns the length of its prompt by the server's usage.
	Measure(ctx context.Context, endpoint int, text string) (uint64, error)
	// Probe sends a request, and returns an error if the answer lacks what the plan says that it has.
	Probe(ctx context.Context, endpoint int, text string) error
	// Try sends a short request and returns what the server made of it.
	Try(ctx context.Context, endpoint int, a stream.TrialRequest) (stream.TrialResult, error)
	// LeaveOut leaves fields out of the bodies of all further requests.
	LeaveOut(names []string) error
}

const (
	// limit bounds the duration of Find.
	limit = time.Minute
	// lengthsLimit and trialLimit bound how long the defaults may take to find out about lengths and about outputs.
	// What is not known by then is treated as impossible to find out.
	lengthsLimit = 40 * time.Second
	trialLimit   = 15 * time.Second
)

// endpoint is the index of the endpoint that is tested.
const endpoint = 0

// Find prepares a stage. lines returns the lines of the text of a sonnet, by the index of its part of a mixture, or of
// index 0; it may be nil for other workloads. What Find cannot find out becomes a note and not an error, unless the
// plan requires it: with tokenizer "server" or "usage", an error says why lengths cannot be made exact. Find also fails
// if the stage lacks the words of a "file:" tokenizer, or if its lines cannot be read. It tries only the target's
// fields that are "auto", as plans fill them in. It tries nothing for empty fields, as in stages that no plan made.
// Find blocks for at most a minute.
func Find(
	ctx context.Context, client targetClient, stage *spatev1.Stage, lines func(part int) ([]workload.Line, error),
) (*spatev1.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f := &finder{client: client, stage: stage, lines: lines, found: &spatev1.Found{Preparation: &spatev1.Preparation{}}}
	f.server(ctx)
	f.form()
	if err := f.probe(ctx); err != nil {
		return nil, fmt.Errorf("target %s: %w", stage.GetTarget().GetName(), err)
	}
	if a := f.api(); !a.NoOutput && !a.DescribedBody() {
		f.output(ctx)
	}
	if err := f.tokenIDs(ctx); err != nil {
		return nil, fmt.Errorf("target %s: %w", stage.GetTarget().GetName(), err)
	}
	if err := f.lengths(ctx); err != nil {
		return nil, fmt.Errorf("target %s: %w", stage.GetTarget().GetName(), err)
	}
	f.found.Preparation.Requests = f.requests
	return f.found, nil
}

// finder is one call of Find.
type finder struct {
	client       targetClient
	stage        *spatev1.Stage
	lines        func(part int) ([]workload.Line, error)
	owner        string // of the model, according to the server
	unreachable  bool   // the endpoint cannot be reached
	requestsFail bool   // a plain request fails
	found        *spatev1.Found

	mu       sync.Mutex // guards the fields below, and found.Preparation.MaxModelTokens
	requests uint32     // requests so far

	elsewhere uint32 // those to other endpoints than the first
}

// note adds a note for people.
func (f *finder) note(format string, args ...any) {
	f.found.Preparation.Notes = append(f.found.Preparation.Notes, fmt.Sprintf(format, args...))
}

// countRequest counts a request that is about to be sent.
func (f *finder) countRequest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
}

// form notes that answers come in one piece, if the plan asks for that.
func (f *finder) form() {
	switch {
	case f.api().NoOutput:
		f.note("Answers of this API have no tokens and come in one piece: TTFT, TPOT and ITL are not measured. E2E and " +
			"throughput are. An output length is not used.")
	case !defaults.Streams(f.stage.GetTarget()):
		f.note("Answers are requested in one piece: TTFT, TPOT and ITL are not measured.")
	}
}

// probe sends a short request if only an answer shows whether the plan describes the API correctly.
func (f *finder) probe(ctx context.Context) error {
	if f.api().Check == nil || f.unreachable {
		return nil
	}
	f.countRequest()
	return f.client.Probe(ctx, endpoint, trialText)
}

// sendsIDs reports whether prompts of a stage are token IDs.
func sendsIDs(s *spatev1.Stage) bool {
	takes := s.GetTarget().GetPrompts() == defaults.PromptIDs
	return takes && slices.ContainsFunc(content.Parts(s.GetWorkload()),
		func(part *spatev1.Workload) bool { return part.GetRandom() != nil || content.Trace(part) != nil })
}

// tokenIDs returns an error if prompts are token IDs, and the server refuses one and takes a text. Some servers answer
// with status 404 or 500 instead; other statuses, such as that of an overload, say nothing about the prompt.
func (f *finder) tokenIDs(ctx context.Context) error {
	if !sendsIDs(f.stage) || !f.api().Trials || f.unreachable {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	_, err := f.attempt(ctx, stream.TrialRequest{TokenIDs: true})
	answer, answered := errors.AsType[*stream.Error](err)
	fails := answered && slices.Contains([]int{http.StatusNotFound, http.StatusInternalServerError}, answer.HTTPStatus)
	if !fails && !stream.Refused(err) {
		return nil
	}
	if _, err := f.attempt(ctx, stream.TrialRequest{}); err != nil {
		return nil // the form of the prompt is not the reason
	}
	return fmt.Errorf("the server refuses prompts that are token ids, and takes text: set the target's prompts to text: %w",
		err)
}

// api returns the target's API.
func (f *finder) api() *api.API {
	return defaults.API(f.stage.GetTarget()) // the client knows it
}

// bodyField returns a field of the body that the plan gives.
func (f *finder) bodyField(name string) any { return f.stage.GetTarget().GetBody().AsMap()[name] }

// shortPrompts returns a note if a workload asks for prompts that are shorter than possible where the server adds
// template tokens. It returns "" if there are none, or if that is not known.
func shortPrompts(w *spatev1.Workload, template uint32) string {
	least := template + 1
	if shortest, known := workload.ShortestPrompt(w); !known || shortest >= least {
		return ""
	}
	return fmt.Sprintf("The server adds %d tokens to each prompt, so no prompt can have fewer than %d: prompts "+
		"with a shorter requested length have %d.", template, least, least)
}

// unlistedModels returns a note if parts of a mixture name models that are not among those that the server lists. It
// returns "" if there are none, or if that is not known.
func unlistedModels(w *spatev1.Workload, listed []string) string {
	if listed == nil {
		return ""
	}
	known := lists.Set(listed)
	var missing []string
	for _, part := range w.GetMix().GetParts() {
		for _, name := range content.Models(part) {
			if !known[name] {
				missing = append(missing, name)
				known[name] = true
			}
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("The server does not list %d of the models that parts of the mixture name, such as %.100q: their "+
		"requests may fail.", len(missing), missing[0])
}

// ownText reports whether a workload gives the text of its prompts, so that they have no requested number of tokens. A
// mixture does if all its parts do.
func ownText(w *spatev1.Workload) bool {
	generated := func(part *spatev1.Workload) bool { return content.File(part) == nil }
	return !slices.ContainsFunc(content.Parts(w), generated)
}
