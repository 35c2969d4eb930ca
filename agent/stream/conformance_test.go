package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go/eventstream"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sse encodes events with a line end and with the text that follows a field's colon.
func sse(events []event, end, space string) string {
	var b strings.Builder
	for _, e := range events {
		if e.name != "" {
			b.WriteString("event:" + space + e.name + end)
		}
		b.WriteString("data:" + space + e.data + end + end)
	}
	return b.String()
}

// messages encodes events as AWS's own library does.
func messages(events []event) string {
	var b bytes.Buffer
	encoder := eventstream.NewEncoder()
	for _, e := range events {
		m := eventstream.Message{Payload: []byte(e.data)}
		m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
		kind, name := "event", ":event-type"
		if e.failed() {
			kind, name = "exception", ":exception-type"
		}
		m.Headers.Set(":message-type", eventstream.StringValue(kind))
		m.Headers.Set(name, eventstream.StringValue(e.name))
		if err := encoder.Encode(&b, m); err != nil {
			panic(err)
		}
	}
	return b.String()
}

// encode encodes events as the form's API has them.
func (f form) encode(events ...event) string {
	if f.binary {
		return messages(events)
	}
	return sse(events, "\n", " ")
}

// body returns the events of an answer with these words, without the events that end it.
func (f form) body(words ...string) []event {
	events := slices.Clone(f.lead)
	for i, w := range words {
		events = append(events, f.token(w, words[:i]))
	}
	return events
}

// stream returns the events of a whole answer of two words.
func (f form) stream() []event {
	return append(append(f.body("one", " two"), f.tail([]string{"one", " two"})...), f.end()...)
}

func (f form) end() []event {
	if f.mark.data == "" {
		return nil
	}
	return []event{f.mark}
}

// client returns a client of the form's API for an endpoint.
func (f form) client(t testing.TB, apiName, url string) *Client {
	config := f.config
	config.API, config.Endpoints = apiName, []string{url}
	return newTestClient(t, config)
}

// play feeds a response's body in pieces that end at the cuts, as if each came in a separate read, and then the end of
// the body with err.
func play(c *Client, body []byte, err error, cuts ...int) *Observation {
	o := new(Observation)
	x := new(exchange)
	x.reset(c, Request{}, o)
	x.keepAnswer, x.timer = true, time.NewTimer(time.Hour)
	from, at := 0, clock.Now()
	for n, to := range append(cuts, len(body)) {
		by := socket.Reading{At: at.Add(1 + 1), Number: uint64(n + 1)}
		for from < to && o.Err == nil && !x.done {
			if n%3 > 0 { // as by push: the piece is invalid afterwards
				piece := bytes.Clone(body[from:to])
				x.Consume(piece, by)
				clear(piece)
				from = to
				continue
			}
			size := copy(x.events.Space(), body[from:to])
			x.events.Filled(size)
			from += size
			x.frames(by)
		}
	}
	switch {
	case o.Err != nil:
	case x.done:
		x.complete(o.End)
	case errors.Is(err, io.EOF):
		x.bodyEnded(err, socket.Reading{At: at.Add(1 + 1), Number: 1 << 20})
	}
	x.decide()
	if !o.Usage {
		o.OutputTokens = o.TokenFrames
	}
	o.Answer = jsonscan.Repair(o.Answer)
	return o
}

// outcome is what an observation reports, except times.
type outcome struct {
	Tokens, Input, Output, Cached uint64
	Usage, HasCached, Whole       bool
	Finish, Answer, Err           string
	Class                         spatev1.ErrorClass
}

func outcomeOf(o *Observation) outcome {
	s := outcome{
		o.TokenFrames, o.InputTokens, o.OutputTokens, o.CachedTokens, o.Usage, o.HasCachedTokens, o.WholeAnswer,
		o.FinishReason, string(o.Answer), "", 0,
	}
	if o.Err != nil {
		s.Err, s.Class = o.Err.Message, o.Err.Class
	}
	return s
}

// good returns what a whole answer of two words reports.
func (f form) good() outcome {
	s := outcome{Tokens: 2 + f.ending, Output: 2 + f.ending, Finish: f.finish, Answer: "one two", Usage: f.usage,
		HasCached: f.hasCached, Cached: f.cached}
	if f.usage {
		s.Input = promptTokens
	}
	return s
}

// streamCase is a stream and what must be reported for it. Nil events: the API cannot have such a stream.
type streamCase struct {
	name string
	make func(f form) (events []event, want outcome)
}

// streamCases are the cases of the suite. Each is played in all writings, and split at any byte.
var streamCases = []streamCase{
	{"plain", func(f form) ([]event, outcome) { return f.stream(), f.good() }},
	{"lead", func(f form) ([]event, outcome) {
		if len(f.lead) == 0 {
			return nil, outcome{}
		}
		return append(slices.Clone(f.lead[:1]), f.stream()...), f.good()
	}},
	{"empty content", func(f form) ([]event, outcome) {
		s := []string{"one", " two"}
		events := append(f.body("one"), f.empty(s[:1]), f.token(" two", s[:1]), f.empty(s))
		want := f.good()
		if !f.usage { // so nothing shows that it is not a token
			want.Tokens, want.Output = 3, 3
		}
		if f.ending > 0 { // and each frame is a token
			want.Tokens += 2
		}
		return append(append(events, f.tail(s)...), f.end()...), want
	}},
	{"unusual events", func(f form) ([]event, outcome) {
		if len(f.unusual) == 0 {
			return nil, outcome{}
		}
		return slices.Insert(f.stream(), len(f.lead)+1, f.unusual...), f.good()
	}},
	{"reasoning", func(f form) ([]event, outcome) { return f.aside(f.reasoning) }},
	{"tool calls", func(f form) ([]event, outcome) { return f.aside(f.tool) }},
	{"several tokens in a frame", func(f form) ([]event, outcome) {
		want := f.good()
		want.Tokens, want.Output = 1+f.ending, 1
		if f.usage {
			want.Output = 2 + f.ending
		}
		if f.running {
			want.Tokens = 2 // the first frame's usage has one token, the last frame's usage another
		}
		events := append(slices.Clone(f.lead), f.token("one two", nil))
		return append(append(events, f.tail([]string{"one", " two"})...), f.end()...), want
	}},
	{"escapes", func(f form) ([]event, outcome) {
		want := f.good()
		want.Answer = `\"\\\n世`
		events := append(f.body("\"\\", "\n世"), f.tail([]string{"\"\\", "\n世"})...)
		return append(events, f.end()...), want
	}},
	{"running usage", func(f form) ([]event, outcome) {
		if !f.running && f.cannot["running usage"] != "" {
			return nil, outcome{}
		}
		return f.runningStream(), f.good()
	}},
	{"error in the stream", func(f form) ([]event, outcome) {
		want := outcome{Tokens: 1, Output: 1, Answer: "one", Err: f.fault,
			Class: spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR}
		return append(f.body("one"), f.failure), f.early(want)
	}},
	{"finish without a mark", func(f form) ([]event, outcome) {
		if f.cannot["finish without a mark"] != "" {
			return nil, outcome{}
		}
		return append(f.body("one", " two"), f.tail([]string{"one", " two"})...), f.good()
	}},
	{"missing mark and finish", func(f form) ([]event, outcome) {
		if f.cannot["missing mark and finish"] != "" {
			return nil, outcome{}
		}
		return f.body("one"), f.early(outcome{Tokens: 1, Output: 1, Answer: "one",
			Class: spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM})
	}},
	{"an invalid frame", func(f form) ([]event, outcome) {
		return append(f.body("one"), event{data: "{oops"}),
			f.early(outcome{Tokens: 1, Output: 1, Answer: "one", Class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME})
	}},
	{"no token", func(f form) ([]event, outcome) {
		want := f.early(outcome{Class: spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT})
		if f.finish == "" {
			return append(append(slices.Clone(f.lead), f.empty(nil)), f.end()...), want
		}
		events := append(append(slices.Clone(f.lead), f.tail(nil)...), f.end()...)
		want = f.good()
		want.Class, want.Tokens, want.Answer = spatev1.ErrorClass_ERROR_CLASS_EMPTY_OUTPUT, 0, ""
		if want.Output = 0; strings.Contains(f.mark.data, `"output_tokens":2`) ||
			strings.Contains(f.mark.data, `"outputTokens":2`) {
			want.Output = 2
		}
		if f.ending > 0 { // the end is a token, without text
			want.Class, want.Tokens, want.Output = 0, f.ending, f.ending
		}
		return events, want
	}},
}

// aside returns a stream with a token that is not part of the answer.
func (f form) aside(e event) ([]event, outcome) {
	if e.data == "" {
		return nil, outcome{}
	}
	want := f.good()
	want.Tokens++
	return slices.Insert(f.stream(), len(f.lead), e), want
}

// early adds the token counts of the first frames, for a stream that does not reach its end.
func (f form) early(s outcome) outcome {
	switch {
	case f.running:
		s.Usage, s.Input, s.Cached, s.HasCached = true, promptTokens, f.cached, f.hasCached
	case len(f.lead) > 0 && strings.Contains(f.lead[0].data, "input_tokens"):
		s.Input, s.Cached, s.HasCached = promptTokens, f.cached, f.hasCached
	}
	return s
}

// runningStream returns a stream with a usage in each frame that has a word.
func (f form) runningStream() []event {
	events := f.stream()
	if f.running {
		return events
	}
	tokens := 0
	for i := range events {
		if strings.Contains(events[i].data, "one") || strings.Contains(events[i].data, "two") {
			tokens++
			events[i].data = strings.TrimSuffix(events[i].data, "}") +
				fmt.Sprintf(`,"usage":{"prompt_tokens":11,"completion_tokens":%d}}`, tokens)
		}
	}
	return events
}

// writings are ways to encode the same events.
var writings = map[string]func(events []event) string{
	"plain":           func(e []event) string { return sse(e, "\n", " ") },
	"no space":        func(e []event) string { return sse(e, "\n", "") },
	"CRLF":            func(e []event) string { return sse(e, "\r\n", " ") },
	"CR":              func(e []event) string { return sse(e, "\r", " ") },
	"byte order mark": func(e []event) string { return "\ufeff" + sse(e, "\n", " ") },
	"comments": func(e []event) string {
		return ": hello\n\n" + strings.ReplaceAll(sse(e, "\n", " "), "\n\n", "\n: keep-alive\n\n:\n\n")
	},
	"ids": func(e []event) string {
		return strings.ReplaceAll(sse(e, "\n", " "), "data:", "id: 7\nretry: 10\ndata:")
	},
	"data in several lines": func(e []event) string {
		return strings.ReplaceAll(sse(e, "\n", " "), `,"`, ",\ndata: \"")
	},
	"no last line end": func(e []event) string { return strings.TrimRight(sse(e, "\n", " "), "\n") },
}

// checkOutcome compares what was reported. If want has no message, only the class is compared.
func checkOutcome(t *testing.T, where string, got, want outcome) {
	t.Helper()
	if want.Err == "" && want.Class != 0 {
		got.Err = ""
	}
	if got.Answer != want.Answer && sameText(got.Answer, want.Answer) {
		got.Answer = want.Answer
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", where, got, want)
	}
}

// sameText reports whether two texts between JSON quotes decode to the same string.
func sameText(a, b string) bool {
	return jsonscan.Text([]byte(`"`+a+`"`)) == jsonscan.Text([]byte(`"`+b+`"`))
}

func TestStreams(t *testing.T) {
	for apiName, f := range forms {
		c := f.client(t, apiName, "http://h")
		for _, sc := range streamCases {
			t.Run(apiName+"/"+sc.name, func(t *testing.T) {
				events, want := sc.make(f)
				if events == nil {
					if f.cannot[sc.name] == "" {
						t.Fatal("the form has no events for it: add them, or the reason to cannot")
					}
					t.Log("there is no such stream:", f.cannot[sc.name])
					return
				}
				write := writings
				if f.binary {
					write = map[string]func([]event) string{"CRLF": messages}
				}
				for how, write := range write {
					body := []byte(write(events))
					checkOutcome(t, how, outcomeOf(play(c, body, io.EOF)), want)
				}
				body := []byte(write["CRLF"](events))
				for i := range body {
					checkOutcome(t, fmt.Sprintf("split at %d", i), outcomeOf(play(c, body, io.EOF, i)), want)
				}
				every := make([]int, len(body))
				for i := range every {
					every[i] = i
				}
				checkOutcome(t, "split everywhere", outcomeOf(play(c, body, io.EOF, every...)), want)
			})
		}
	}
}

// TestRunningTokens checks the tokens of each frame, with several tokens in one frame.
func TestRunningTokens(t *testing.T) {
	f := forms["sglang"]
	c := f.client(t, "sglang", "http://h")
	var tokens []int
	x := new(exchange)
	x.reset(c, Request{}, new(Observation))
	x.onToken = func(_ clock.Instant, n int) { tokens = append(tokens, n) }
	for _, words := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "b", "c", ""}, {"a", "b", "c", "", "d"}} {
		x.frame([]byte(sglangChunk(words, "null").data), socket.Reading{})
	}
	if !slices.Equal(tokens, []int{1, 2, 1, 1}) {
		t.Errorf("%v", tokens)
	}
}

// answers are responses as a server writes them, byte for byte.
type answerCase struct {
	name string
	make func(f form) (response string, want outcome)
}

const plainHead = "HTTP/1.1 200 OK\r\nConnection: close\r\n"

var answerCases = []answerCase{
	{"chunks", func(f form) (string, outcome) {
		var b strings.Builder
		for _, e := range f.stream() {
			b.WriteString(chunk(f.encode(e)))
		}
		return chunkedHead + b.String() + lastChunk, f.good()
	}},
	{"trailers", func(f form) (string, outcome) {
		return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTrailer: X-Usage\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunk(f.encode(f.stream()...)) + "0\r\nX-Usage: 7\r\n\r\n", f.good()
	}},
	{"until the connection closes", func(f form) (string, outcome) {
		return plainHead + "Content-Type: text/event-stream; charset=utf-8\r\n\r\n" + f.encode(f.stream()...),
			f.good()
	}},
	{"an answer in one piece", func(f form) (string, outcome) {
		want := f.good()
		want.Whole, want.Tokens = true, 1
		if !f.usage { // nothing counts its tokens
			want.Output = 0
		}
		return plainHead + "Content-Type: application/json\r\n\r\n" + f.whole, want
	}},
	{"an error in one piece", func(f form) (string, outcome) {
		return plainHead + "Content-Type: application/json\r\n\r\n" + f.refusal,
			outcome{Whole: true, Class: spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR}
	}},
	{"gzip", func(form) (string, outcome) {
		return plainHead + "Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b", outcome{
			Class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
			Err:   "the response is compressed (gzip), which was not asked for",
		}
	}},
	{"a stream that is cut", func(f form) (string, outcome) {
		return chunkedHead + chunk(f.encode(f.body("one")...)),
			f.early(outcome{Tokens: 1, Output: 1, Answer: "one", Class: spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM})
	}},
	{"an HTTP error", func(f form) (string, outcome) {
		return "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" +
				f.refusal,
			outcome{Class: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS, Err: "429 Too Many Requests: " + words.Message(f.refusal)}
	}},
	{"a very long frame", func(f form) (string, outcome) {
		long := strings.Repeat("x", frameLimit/4)
		want := f.good()
		want.Answer = long + " two"
		events := append(f.body(long, " two"), f.tail([]string{long, " two"})...)
		return chunkedHead + chunk(f.encode(append(events, f.end()...)...)) + lastChunk, want
	}},
	{"a frame too long", func(f form) (string, outcome) {
		long := "data: " + strings.Repeat("x", 2*frameLimit)
		if f.binary {
			long = messages([]event{{data: long}})
		}
		return chunkedHead + chunk(long),
			outcome{Class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, Err: errFrameTooLong.Error()}
	}},
	{"a page", func(form) (string, outcome) {
		return plainHead + "Content-Type: text/html\r\n\r\n<html>busy</html>\n",
			outcome{Class: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME}
	}},
}

func TestAnswersOfServers(t *testing.T) {
	for apiName, f := range forms {
		for _, ac := range answerCases {
			t.Run(apiName+"/"+ac.name, func(t *testing.T) {
				response, want := ac.make(f)
				s := testserver.NewRaw(t, respondOnce(response))
				c := f.client(t, apiName, s.URL)
				var o Observation
				c.Do(t.Context(), Request{Body: body(c), KeepAnswer: true}, &o)
				checkOutcome(t, ac.name, outcomeOf(&o), want)
				if want.Class == spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS &&
					o.Err.HTTPStatus != http.StatusTooManyRequests {
					t.Errorf("status %d", o.Err.HTTPStatus)
				}
			})
		}
	}
}

// Answers name their model, and an agent knows a bounded number of names.
func TestModelsOfAnswers(t *testing.T) {
	named := map[string]string{"chat": "m", "completions": "m", "gemini": "m", "triton": "ensemble",
		"anthropic": "m"}
	for apiName, f := range forms {
		c := f.client(t, apiName, "http://h")
		if o := play(c, []byte(f.encode(f.stream()...)), io.EOF); o.Model != named[apiName] {
			t.Errorf("%s: model %q", apiName, o.Model)
		}
	}
	for apiName, data := range map[string]string{
		"anthropic": `{"type":"message_start","message":{"model":"a\u0062","usage":{}}}`,
		"responses": `{"type":"response.completed","response":{"status":"completed","model":"ab"}}`,
	} {
		c := forms[apiName].client(t, apiName, "http://h")
		if o := play(c, []byte("data: "+data+"\n\n"), io.EOF); o.Model != "ab" {
			t.Errorf("%s: model %q", apiName, o.Model)
		}
	}
	c := forms["chat"].client(t, "chat", "http://h")
	for i := range 2 * measure.MaxModels {
		want := fmt.Sprint("model ", i)
		if i >= measure.MaxModels {
			want = measure.OtherModels
		}
		for range 2 {
			o := play(c, []byte(fmt.Sprintf("data: {\"model\":\"model %d\",\"choices\":[]}\n\n", i)), io.EOF)
			if o.Model != want {
				t.Errorf("%q, want %q", o.Model, want)
			}
		}
	}
}

// An answer that its server ended early has failed, in any API, whatever has been received before, and as a whole.
func TestAnAbortedAnswerHasFailed(t *testing.T) {
	aborted := spatev1.ErrorClass_ERROR_CLASS_ABORTED
	check := func(what string, o *Observation, reason string) {
		t.Helper()
		if o.Err == nil || o.Err.Class != aborted || o.FinishReason != reason || o.Ending != api.EndingAborted ||
			!strings.Contains(o.Err.Message, strconv.Quote(reason)) {
			t.Errorf("%s: %v, finish reason %q", what, o.Err, o.FinishReason)
		}
	}
	for apiName, f := range forms {
		if f.finish == "" {
			continue
		}
		c := f.client(t, apiName, "http://h")
		for _, reason := range []string{"abort", "error", "CANCELLED"} {
			events := f.stream()
			for i := range events {
				events[i].data = strings.ReplaceAll(events[i].data, strconv.Quote(f.finish), strconv.Quote(reason))
			}
			check(apiName, play(c, []byte(f.encode(events...)), io.EOF), reason)
			s := testserver.NewRaw(t, respondOnce(plainHead+"Content-Type: application/json\r\n\r\n"+
				strings.ReplaceAll(f.whole, strconv.Quote(f.finish), strconv.Quote(reason))))
			var o Observation
			whole := f.client(t, apiName, s.URL)
			whole.Do(t.Context(), Request{Body: body(whole)}, &o)
			check(apiName+" as a whole", &o, reason)
		}
	}
	// A response has a status, and may have an error.
	c := forms["responses"].client(t, "responses", "http://h")
	for data, reason := range map[string]string{
		`{"type":"response.failed","response":{"error":{"code":"server_error","message":"lost"}}}`: "failed",
		`{"type":"response.completed","response":{"status":"cancelled","error":null}}`:             "cancelled",
	} {
		o := play(c, []byte(sse(append(forms["responses"].body("one"), event{data: data}), "\n", " ")), io.EOF)
		if check(data, o, reason); reason == "failed" && !strings.Contains(o.Err.Message, "server_error: lost") {
			t.Error(o.Err)
		}
	}
}

// TestTokensDoNotAllocate checks that a token allocates no memory, in any API.
func TestTokensDoNotAllocate(t *testing.T) {
	for apiName, f := range forms {
		c := f.client(t, apiName, "http://h")
		e := f.token("one", []string{strings.Repeat("x", 4096)})
		token := api.Event{Name: []byte(e.name), Data: []byte(e.data)}
		var fr api.Frame
		if n := testing.AllocsPerRun(100, func() {
			if c.dialect.Parse(token, &fr) != nil || !fr.Token && len(fr.Answer) == 0 {
				t.Fatal("no token")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", apiName, n)
		}
	}
}

// TestEveryDialectHasAForm checks that the conformance suite covers every dialect with a stream of its own.
func TestEveryDialectHasAForm(t *testing.T) {
	for _, a := range registry.All {
		if _, ok := forms[a.Name]; ok == (a.NoOutput || a.Check != nil) {
			t.Errorf("%s has a form in forms_test.go: %t", a.Name, ok)
		}
	}
}
