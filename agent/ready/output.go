package ready

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/plans/defaults"
)

// eos returns the body field that makes outputs continue beyond their end, with the object that holds it, and its value
// in the plan's body. nil: the body does not set it.
func (f *finder) eos() (name string, asked any) {
	a := f.api()
	name = cmp.Or(a.IgnoreEOS, "ignore_eos")
	if a.Options == "" {
		return name, f.bodyField(name)
	}
	options, _ := f.bodyField(a.Options).(map[string]any)
	return a.Options + "." + name, options[name]
}

// How ExactOutput was decided.
const (
	byPlan  = "plan"
	byName  = "known"
	byTrial = "tried"
)

// output decides whether requests ask for exactly OSL tokens, and whether they ask for running usage.
//
// One answer does not show whether a server accepts a field: many servers ignore fields that they do not know, and an
// output may have the requested length by chance. So the server is asked twice. It must answer a request for exactly 16
// tokens with 16 by its usage. It must then reject the same request with a text in place of ignore_eos, or else of
// min_tokens: a server that checks the type of a field reads the field. Gateways pass such a rejection on. A server
// that identifies itself as one that accepts the fields only has to pass the first request. A wrong yes shows in the
// results, where the osl check compares the lengths. A wrong no shows as a note that says what to set.
func (f *finder) output(ctx context.Context) {
	open, running := f.exactByPlan(), f.runningByPlan()
	exact := open && f.stage.GetTarget().GetExactOutput() == "auto"
	own, whole := f.owner == stream.OwnSimulator, !defaults.Streams(f.stage.GetTarget())
	if f.api().Trials && !f.unreachable && !own && (exact || running || whole) {
		ctx, cancel := context.WithTimeout(ctx, trialLimit)
		defer cancel()
		f.tryOutput(ctx, trialGoals{open, exact, running})
		return
	}
	if running {
		f.found.Preparation.RunningUsage = own
	}
	if open {
		f.exactByName("")
	}
}

// trialGoals are what a trial must find out.
type trialGoals struct {
	open    bool // the plan leaves open whether outputs are forced
	exact   bool // and that may be tried
	running bool
}

// exactByPlan decides from the plan whether outputs are forced, and reports whether the plan leaves it open.
func (f *finder) exactByPlan() (open bool) {
	p, wish := f.found.Preparation, f.stage.GetTarget().GetExactOutput()
	switch name, asked := f.eos(); {
	case asked == true, asked == nil && wish == "always":
		p.ExactOutput, p.ExactOutputBy = true, byPlan
	case asked != nil:
		f.note("Outputs can be shorter than their OSL: the target's body sets %s: %v.", name, asked)
	case wish == "never":
		f.note("Outputs can be shorter than their OSL: the target sets exact_output: never.")
	default:
		return true
	}
	return false
}

// runningByPlan does the same for running usage. In a stage that no plan made the field is empty, and running usage
// stays off.
func (f *finder) runningByPlan() (open bool) {
	if !f.api().RunningUsage() {
		return false
	}
	options, _ := f.bodyField("stream_options").(map[string]any)
	switch asked, given := options["continuous_usage_stats"].(bool); {
	case given:
		f.found.Preparation.RunningUsage = asked
		return false
	case f.stage.GetTarget().GetRunningUsage() == "always":
		f.found.Preparation.RunningUsage = true
		return false
	}
	return f.stage.GetTarget().GetRunningUsage() == "auto"
}

// exactByName decides from the server's name. why says why nothing better is known; empty: not worth a note.
func (f *finder) exactByName(why string) {
	switch {
	case len(f.api().LengthFields()) == 0:
		f.note("Outputs can be shorter than their OSL: the API has no fields that ask for outputs of exactly that " +
			"length.")
		return
	case f.acceptsLength():
		f.found.Preparation.ExactOutput, f.found.Preparation.ExactOutputBy = true, byName
		return
	}
	f.noteInexact(cmp.Or(why, "the server is not known to accept "+f.lengthFields()))
}

// noteInexact notes why outputs are not forced.
func (f *finder) noteInexact(why string) {
	f.note("Outputs can be shorter than their OSL: %s. If the server does generate outputs of the requested "+
		"length, set the target's exact_output to always.", why)
}

// acceptsLength reports whether the server is known to make outputs of exactly the requested length: by the API if only
// such servers have it, and else by the server's name.
func (f *finder) acceptsLength() bool {
	a := f.api()
	return a.AlwaysExact || f.owner == stream.OwnSimulator || slices.Contains(a.ExactServers, f.owner)
}

// lengthFields names the fields that request exact outputs.
func (f *finder) lengthFields() string { return strings.Join(f.api().LengthFields(), " and ") }

// The trial request: a question with a one-word answer, and more tokens than that.
const (
	trialText   = "Answer with one word: is water wet?"
	trialTokens = 16
)

// mostTries is how often a trial is sent that gets no answer.
const mostTries = 3

// attempt sends one trial, and again if it gets no answer: only an answer shows what the server accepts.
func (f *finder) attempt(ctx context.Context, a stream.TrialRequest) (result stream.TrialResult, err error) {
	a.Text, a.Tokens = trialText, trialTokens
	for range mostTries {
		f.countRequest()
		if result, err = f.client.Try(ctx, endpoint, a); !stream.Unanswered(err) || ctx.Err() != nil {
			break
		}
	}
	return result, err
}

// tryOutput finds out what the server accepts.
func (f *finder) tryOutput(ctx context.Context, w trialGoals) {
	accepted, trial, err := f.firstAccepted(ctx, w.exact, w.running)
	if err != nil {
		f.requestsFail = true
		f.note("A short request to the server failed: %v.", err)
		if w.open {
			f.exactByName("the short request that shows what the server accepts failed")
		}
		return
	}
	f.setSoftware(trial.Software)
	switch streams := defaults.Streams(f.stage.GetTarget()); { // the server may answer in another form than asked for
	case streams && !trial.Events:
		f.note("The server answers in one piece although a stream was requested: TTFT, TPOT and ITL cannot be " +
			"measured. Have it stream, or set the target's stream to false.")
	case !streams && trial.Events:
		f.note("The server streams although the target asks for answers in one piece: it ignores the field.")
	}
	if w.running {
		f.found.Preparation.RunningUsage = accepted.Running && trial.Running
	}
	switch {
	case !w.open:
	case !w.exact:
		f.exactByName("")
	case !accepted.Exact:
		f.disprove("the server rejects " + f.lengthFields())
	case trial.Output == 0:
		f.exactByName("the server does not report how many tokens it generated")
	case trial.Output != trialTokens:
		f.found.Preparation.ExactOutputBy = byTrial
		f.note("Outputs can be shorter than their OSL: asked for exactly %d tokens with %s, the server generated %d.",
			trialTokens, f.lengthFields(), trial.Output)
	case f.acceptsLength():
		f.exactByName("")
	default:
		f.proveExact(ctx)
	}
}

// firstAccepted is firstOf. If the server refuses all and names a field that Spate sends by itself, requests leave it
// out from then on: some servers accept only max_completion_tokens, or no stream_options.
func (f *finder) firstAccepted(
	ctx context.Context, exact, running bool,
) (stream.TrialRequest, stream.TrialResult, error) {
	a, trial, err := f.firstOf(ctx, exact, running)
	own := []string{api.StreamOptions}
	if fields := f.api().MaxFields; len(fields) > 1 {
		own = append(own, fields[0])
	}
	named := func(name string) bool { return strings.Contains(err.Error(), name) }
	var left []string
	for stream.Refused(err) && slices.ContainsFunc(own, named) {
		i := slices.IndexFunc(own, named)
		left, own = append(left, own[i]), slices.Delete(own, i, i+1)
		_, err = f.attempt(ctx, stream.TrialRequest{Without: left})
	}
	if left == nil || err != nil {
		return a, trial, err
	}
	if err := f.client.LeaveOut(left); err != nil {
		return a, trial, err
	}
	f.found.Preparation.LeftOut = left
	instead := ""
	if fields := f.api().MaxFields; len(fields) > 1 && slices.Contains(left, fields[0]) {
		instead = ", and " + fields[1] + " has the length"
	}
	f.note("The server refuses %s: requests are sent without%s.", strings.Join(left, " and "), instead)
	return f.firstOf(ctx, exact, running)
}

// firstOf tries both goals, then each alone, then none, until the server accepts a request.
func (f *finder) firstOf(ctx context.Context, exact, running bool) (stream.TrialRequest, stream.TrialResult, error) {
	var refused error
	type fields struct{ exact, running bool }
	tries := []fields{{exact, running}, {exact, false}, {false, running}, {}}
	for i, try := range tries {
		if slices.Contains(tries[:i], try) {
			continue
		}
		a := stream.TrialRequest{Exact: try.exact, Running: try.running}
		trial, err := f.attempt(ctx, a)
		if err == nil || !stream.Refused(err) {
			return a, trial, err
		}
		refused = err
	}
	return stream.TrialRequest{}, stream.TrialResult{}, refused
}

// proveExact checks whether the server reads the fields that request exact outputs. Only its refusal of a wrong value
// proves that it does, and only an answer that it does not: a failure proves neither.
func (f *finder) proveExact(ctx context.Context) {
	var failed error
	for _, field := range f.api().LengthFields() {
		_, err := f.attempt(ctx, stream.TrialRequest{BadField: field})
		if stream.Refused(err) {
			f.found.Preparation.ExactOutput, f.found.Preparation.ExactOutputBy = true, byTrial
			return
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		f.noteInexact(fmt.Sprintf("a request that shows whether the server reads %s failed (%v)", f.lengthFields(), failed))
		return
	}
	f.disprove("the server accepts any value for " + f.lengthFields() + ", so it may ignore them")
}

// disprove records that an answer shows that outputs cannot be forced.
func (f *finder) disprove(why string) {
	f.found.Preparation.ExactOutputBy = byTrial
	f.noteInexact(why)
}

// setSoftware records the software that an answer names. The name that the server gave itself is more exact and stays,
// unless the answer came through LiteLLM.
func (f *finder) setSoftware(software []string) {
	p := f.found.Preparation
	if p.Server != "" && !strings.HasPrefix(strings.Join(software, " "), "LiteLLM") {
		return
	}
	p.Server = strings.Join(software, " before ")
}
