package stream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/bodies"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TrialRequest is a short request that shows how a server treats fields of its body.
type TrialRequest struct {
	// Text of the prompt: the only user message of a chat, or the whole prompt.
	Text string
	// Tokens is the number of output tokens to ask for.
	Tokens uint32
	// Exact asks for exactly that many, as Config.ExactOutput does.
	Exact bool
	// Running asks for running usage, as Config.RunningUsage does.
	Running bool
	// BadField names a field of the body that gets a value of the wrong type, a string. Empty: no field.
	BadField string
	// With has fields of the body over those of the plan's body. Without names fields that are left out, of the plan's
	// and of Spate's own.
	With    map[string]any
	Without []string
	// TokenIDs sends some token IDs as the prompt in place of the text.
	TokenIDs bool
}

// TrialResult is the outcome of a TrialRequest.
type TrialResult struct {
	// Output is the number of output tokens that the server reports. 0: not reported.
	Output uint64
	// Events: the answer is a stream of events. Otherwise it came in one piece.
	Events bool
	// Running is true if at least two frames with choices had running usage, with different counts.
	Running bool
	// Software that the answer names, with versions, in the order in which the answer names it: a gateway before the
	// engine. May be empty.
	Software []string
}

// Try sends a trial request to an endpoint, with those of the plan's fields that affect neither the length nor the end
// of the output. It is for APIs with Trials. If the server refuses, the error is an *Error with its HTTPStatus. Try
// blocks for at most 10 s.
func (c *Client) Try(ctx context.Context, endpoint int, a TrialRequest) (TrialResult, error) {
	u := c.endpoints[endpoint]
	body, err := c.TrialBody(a)
	if err != nil {
		return TrialResult{}, c.unusable(u.Path, err.Error())
	}
	header, data, err := c.fetch(ctx, c.callRequest(u, c.headers, body))
	if err != nil {
		return TrialResult{}, err
	}
	t := TrialResult{Software: softwareOf(header)}
	if err := t.read(data, c.dialect); err != nil {
		return TrialResult{}, c.unusable(u.Path, err.Error())
	}
	for i, name := range t.Software {
		t.Software[i] = c.secrets.Clean(name)
	}
	return t, nil
}

// Probe sends a request with a text to an endpoint, and returns an error if its answer lacks what the API's answers
// must have. It does nothing for an API that names nothing. It blocks for at most 10 s.
func (c *Client) Probe(ctx context.Context, endpoint int, text string) error {
	if c.dialect.Check == nil {
		return nil
	}
	u := c.endpoints[endpoint]
	prompt, err := c.promptOf(text)
	if err != nil {
		return c.unusable(u.Path, err.Error())
	}
	body := c.AppendBody(nil, probeTokens, func(dst []byte) []byte { return append(dst, prompt...) })
	_, data, err := c.fetch(ctx, c.callRequest(u, c.headers, body))
	if err != nil {
		return err
	}
	if err := c.dialect.Check(c.eventsOf(data)); err != nil {
		return c.unusable(u.Path, fmt.Sprintf("%v in the answer %s", err, excerpt(data)))
	}
	return nil
}

// probeTokens is the number of output tokens that Probe asks for.
const probeTokens = 8

// eventsOf divides a whole response into its events.
func (c *Client) eventsOf(data []byte) [][]byte {
	if c.dialect.Whole {
		return [][]byte{data}
	}
	return eventsIn(data, c.dialect.Framing)
}

// eventsIn divides a stream into its events.
func eventsIn(data []byte, f api.Framing) (all [][]byte) {
	var r eventReader
	r.Reset(f)
	r.Attach(data)
	defer r.Detach()
	for event, ok := r.Next(); ok; event, ok = r.Next() {
		all = append(all, bytes.Clone(event))
	}
	if event, ok := r.Last(); ok {
		all = append(all, bytes.Clone(event))
	}
	return all
}

// TrialBody returns the body of a trial request.
func (c *Client) TrialBody(a TrialRequest) ([]byte, error) {
	fields := map[string]any{}
	maps.Copy(fields, c.config.Body)
	maps.Copy(fields, a.With)
	t := c.dialect
	for _, own := range [][]string{
		{"n", "best_of", "stream", api.StreamOptions, t.IgnoreEOS}, t.MaxFields, t.MinFields,
	} {
		for _, name := range own {
			if fields[name] != nil { // what the plan leaves out stays left out
				delete(fields, name)
			}
		}
	}
	for _, name := range a.Without {
		fields[name] = nil
	}
	if a.BadField != "" {
		fields[a.BadField] = "spate"
	}
	body, err := bodies.New(c.dialect, c.model, fields, bodies.Options{Exact: a.Exact, Running: a.Running})
	if err != nil {
		return nil, err
	}
	prompt, err := c.promptOf(a.Text)
	if a.TokenIDs {
		prompt = []byte("[100,101,102,103]") // any vocabulary has them
	}
	if err != nil {
		return nil, err
	}
	return body.Append(nil, a.Tokens, func(dst []byte) []byte { return append(dst, prompt...) }, c.dialect.Rewrite), nil
}

// softwareOf returns the name and version that a gateway puts into the head of an answer.
func softwareOf(h http.Header) []string {
	if version := h.Get("X-Litellm-Version"); version != "" {
		return []string{"LiteLLM " + version}
	}
	return nil
}

// read reads an answer: events, or one piece.
func (t *TrialResult) read(data []byte, dialect *bodies.Dialect) error {
	var f api.Frame
	counts := make(map[uint64]bool) // of running usage
	for _, event := range eventsIn(data, api.ServerSentEvents) {
		if dialect.Parse(api.Event{Data: event}, &f) != nil {
			continue // [DONE], or an invalid frame
		}
		t.Events = true
		if err := t.add(event, &f); err != nil {
			return err
		}
		if f.Chunk && f.Output > 0 {
			counts[f.Output] = true
		}
	}
	t.Running = len(counts) > 1
	if t.Events {
		return nil
	}
	if dialect.Parse(api.Event{Data: data}, &f) != nil {
		return fmt.Errorf("the answer is neither a stream of events nor JSON%s", webPageHint(data))
	}
	return t.add(data, &f)
}

// add records what one frame reports.
func (t *TrialResult) add(data []byte, f *api.Frame) error {
	if f.Failed {
		return fmt.Errorf("the answer is an error: %.*s", messageLimit, f.Fault)
	}
	t.Output = max(t.Output, f.Output)
	fingerprint := gjson.GetBytes(data, "system_fingerprint").String()
	if rest, ok := strings.CutPrefix(fingerprint, "vllm-"); ok && len(t.Software) < 2 {
		version, _, _ := strings.Cut(rest, "-")
		if name := "vLLM " + version; len(t.Software) == 0 || t.Software[len(t.Software)-1] != name {
			t.Software = append(t.Software, name)
		}
	}
	return nil
}

// webPageHint returns words for an error message if an answer looks like an HTML page, else "".
func webPageHint(data []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		return ": it is a web page (HTML), so the URL is not that of an API"
	}
	return ""
}

// Refused reports whether an error is a server's refusal of a request's content: status 400 or 422.
func Refused(err error) bool {
	status := statusOf(err)
	return status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
}

// statusOf returns the HTTP status of the answer behind a call's error. 0: there was no answer, or its status was 200.
func statusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.HTTPStatus
	}
	return 0
}

// Unanswered reports whether a call failed because its connection could not be opened or ended before the answer did:
// that says nothing about what the server answers.
func Unanswered(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Class == spatev1.ErrorClass_ERROR_CLASS_CONNECT ||
		e.Class == spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM)
}

// Unreachable reports whether a call failed because the endpoint did not answer at all, or because the context ended.
func Unreachable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return true
	}
	switch e.Class {
	case spatev1.ErrorClass_ERROR_CLASS_CONNECT, spatev1.ErrorClass_ERROR_CLASS_TLS,
		spatev1.ErrorClass_ERROR_CLASS_TIMEOUT:
		return true
	}
	return false
}

const (
	// Unnamed stands for a model that is not known yet.
	Unnamed = "-"
	// OwnSimulator is the owner of the simulator's models. The simulator accepts any model name unless it is given one.
	OwnSimulator = "spate"
)

// Ready returns nil if an endpoint is ready for requests, and else an *Error with what it answers. With a path in r,
// the answer's status decides; else a short request does, which generates one token. If r is nil, an endpoint that
// lists the model is taken as ready, and the request is only sent to others; one that refuses the key is not ready.
// Ready blocks for as long as ctx lets it; if ctx ends, that says nothing about the endpoint.
func (c *Client) Ready(ctx context.Context, endpoint int, r *spatev1.Ready) error {
	if err := c.Check(ctx, endpoint); err != nil {
		return err
	}
	if path := r.GetPath(); path != "" {
		return c.answers(ctx, endpoint, path, int(cmp.Or(r.GetStatus(), http.StatusOK)))
	}
	if r == nil {
		models, err := c.Models(ctx, endpoint)
		listed := slices.ContainsFunc(models, func(m api.Model) bool {
			return m.ID == c.model || m.Owner == OwnSimulator
		})
		if !notReady(err) && !refusesKey(err) && (listed || len(models) == 0 || c.model == Unnamed) {
			return nil
		}
	}
	prompt, err := c.promptOf("ready")
	if err != nil {
		return c.unusable(c.endpoints[endpoint].Path, err.Error())
	}
	body := c.AppendBody(nil, 1, func(dst []byte) []byte { return append(dst, prompt...) })
	q := c.callRequest(c.endpoints[endpoint], c.headers.Clone(), body)
	_, _, err = c.exchange(ctx, q)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case notReady(err), r == nil && refusesKey(err):
		return err
	}
	return nil
}

// refusesKey reports whether a call failed for want of the right key, for which waiting does not help.
func refusesKey(err error) bool { return statusOf(err) == http.StatusUnauthorized }

// Ask asks the first endpoint at a path from its root, by GET or, with a body, by POST. It blocks for at most 10 s.
func (c *Client) Ask(ctx context.Context, path string, body []byte) (answer []byte, err error) {
	_, answer, err = c.fetch(ctx, c.callRequest(c.at(0, path), c.headers.Clone(), body))
	return answer, err
}

// answers returns an error if an endpoint answers a GET with another status.
func (c *Client) answers(ctx context.Context, endpoint int, path string, status int) error {
	q := c.callRequest(c.at(endpoint, path), c.headers.Clone(), nil)
	_, _, err := c.fetch(ctx, q)
	switch got := statusOf(err); {
	case err == nil && status == http.StatusOK, got != 0 && got == status:
		return nil
	case err == nil:
		return c.callFailed(q, spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, fmt.Errorf("200 OK, want %d", status))
	}
	return err
}

// notReady reports whether a call failed as it does if there is no server yet, only a proxy in front of it, or a server
// that does not serve this API or model.
func notReady(err error) bool {
	status := statusOf(err)
	return Unanswered(err) || status >= http.StatusInternalServerError || status == http.StatusNotFound ||
		status == http.StatusMethodNotAllowed
}
