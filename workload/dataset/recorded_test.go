package dataset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

func otelOf(c *spatev1.TraceContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "m", Content: &spatev1.Workload_Otel{Otel: c}}
}

func logOf(c *spatev1.TraceContent) *spatev1.Workload {
	return &spatev1.Workload{Name: "m", Content: &spatev1.Workload_OpenaiLog{OpenaiLog: c}}
}

var playedSessions = &spatev1.TraceContent{Sessions: &spatev1.SessionPlay{}}

// recordedSpan returns a span in OTLP JSON. Times are in milliseconds.
func recordedSpan(trace, id, parent string, start, end int, attributes ...string) string {
	var list []string
	for i := 0; i < len(attributes); i += 2 {
		list = append(list, fmt.Sprintf(`{"key":%q,"value":%s}`, attributes[i], attributes[i+1]))
	}
	return fmt.Sprintf(`{"traceId":%q,"spanId":%q,"parentSpanId":%q,"name":"x","kind":3,"startTimeUnixNano":"%d",`+
		`"endTimeUnixNano":"%d","attributes":[%s],"status":{}}`, trace, id, parent, start*1e6, end*1e6, strings.Join(list, ","))
}

// exported returns spans as an exporter writes them.
func exported(spans ...string) string {
	return `{"resourceSpans":[{"resource":{"attributes":[{"key":"spans","value":{"stringValue":"[]"}}]},"scopeSpans":[` +
		`{"scope":{"name":"s"},"spans":[` + strings.Join(spans, ",\n") + `]}]}]}`
}

const (
	chatSpan    = `{"stringValue":"chat"}`
	toolSpan    = `{"stringValue":"execute_tool"}`
	invokeAgent = `{"stringValue":"invoke_agent"}`
	op          = "gen_ai.operation.name"
	usageIn     = "gen_ai.usage.input_tokens"
	usageOut    = "gen_ai.usage.output_tokens"
)

// TestSpansBecomeSessions: what requests waited for is found from when they ran and what was around them. The time of
// tools is a delay.
func TestSpansBecomeSessions(t *testing.T) {
	in := func(n int) string { return fmt.Sprintf(`{"intValue":"%d"}`, n) }
	// An agent: a plan, a tool, then two sub-agents at once, one of them with a tool between its requests.
	agent := exported(
		recordedSpan("t", "plan", "agent", 1000, 1400, op, chatSpan, usageIn, in(10), usageOut, in(1)),
		recordedSpan("t", "tool", "agent", 1400, 1650, op, toolSpan),
		recordedSpan("t", "a1", "subA", 1700, 1900, op, chatSpan, usageIn, in(11), usageOut, in(2)),
		recordedSpan("t", "b1", "subB", 1710, 2500, op, chatSpan, usageIn, in(12), usageOut, in(3)),
		recordedSpan("t", "toolA", "subA", 1900, 2000, op, toolSpan),
		recordedSpan("t", "a2", "subA", 2100, 2200, op, chatSpan, usageIn, in(13), usageOut, in(4)),
		recordedSpan("t", "subA", "tools", 1690, 2200, op, invokeAgent),
		recordedSpan("t", "subB", "tools", 1700, 2510, op, invokeAgent),
		recordedSpan("t", "tools", "agent", 1680, 2520),
		recordedSpan("t", "agent", "", 990, 3000, op, invokeAgent, "gen_ai.conversation.id", `{"stringValue":"c"}`),
	) + "\n" + exported( // a later trace of the same conversation, and one of another
		recordedSpan("u", "r", "gone", 2600, 2900, op, chatSpan, usageIn, in(14), usageOut, in(5),
			"gen_ai.conversation.id", `{"stringValue":"c"}`),
		recordedSpan("v", "x", "", 1500, 1600, op, chatSpan, usageIn, in(15), "gen_ai.request.max_tokens", in(99)),
	)
	want := `
0s: 0=10:1 1[0]+300ms=11:2 2[0]+310ms=12:3 3[1]+200ms=13:4 4@1.6s=14:5
500ms: 0=15:99
`
	_, skipped, r := built(t, otelOf(playedSessions), agent, Options{})
	if got := "\n" + shapeOf(t, r); got != want || skipped.Unusable+skipped.Excluded != 0 {
		t.Errorf("got%swant%s%+v", got, want, skipped)
	}
	_, _, r = built(t, otelOf(&spatev1.TraceContent{}), agent, Options{})
	if got, want := shapeOf(t, r), `0s: 0=10:1
500ms: 0=15:99
700ms: 0=11:2
710ms: 0=12:3
1.1s: 0=13:4
1.6s: 0=14:5
`; got != want {
		t.Errorf("without sessions: %s", got)
	}
}

// TestMessagesOfSpans: messages of the conventions are sent as messages of a chat, given as JSON in a string or as
// values.
func TestMessagesOfSpans(t *testing.T) {
	messages := `[{"role":"user","parts":[{"type":"text","content":"Weather in \"Bern\"?"},{"type":"text","content":"<b>"}]},` +
		`{"role":"assistant","parts":[{"type":"reasoning","content":"hm"},` +
		`{"type":"tool_call","id":"c1","name":"weather","arguments":{"city":"Bern"}}]},` +
		`{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":{"celsius":7}}]}]`
	asString, _ := json.Marshal(messages)
	value := `{"arrayValue":{"values":[{"kvlistValue":{"values":[{"key":"role","value":{"stringValue":"user"}},{"key":"parts",` +
		`"value":{"arrayValue":{"values":[{"kvlistValue":{"values":[{"key":"type","value":{"stringValue":"text"}},` +
		`{"key":"content","value":{"stringValue":"Hi"}}]}}]}}}]}}]}}`
	tools, _ := json.Marshal(`[{"type":"function","name":"weather","parameters":{"type":"object"}}]`)
	instructions, _ := json.Marshal(`[{"type":"text","content":"Be brief."}]`)
	_, _, r := built(t, otelOf(playedSessions), exported(
		recordedSpan("t", "1", "", 0, 5, op, chatSpan, "gen_ai.input.messages", `{"stringValue":`+string(asString)+`}`,
			"gen_ai.system_instructions", `{"stringValue":`+string(instructions)+`}`,
			"gen_ai.tool.definitions", `{"stringValue":`+string(tools)+`}`, usageIn, `{"intValue":90}`,
			usageOut, `{"intValue":"7"}`),
		recordedSpan("t", "2", "", 9, 12, op, chatSpan, "gen_ai.input.messages", value)), Options{})
	row := rowsOf(t, r)[0]
	for i, want := range []rows.Row{
		{OSL: 7, Kind: rows.MessagesWithFields, Insert: 0, Content: []byte(`[{"content":"Be brief.","role":"system"},` +
			`{"content":"Weather in \"Bern\"?\n<b>","role":"user"},{"content":"","role":"assistant","tool_calls":[{"function":` +
			`{"arguments":"{\"city\":\"Bern\"}","name":"weather"},"id":"c1","type":"function"}]},` +
			`{"content":"{\"celsius\":7}","role":"tool","tool_call_id":"c1"}]`),
			Fields: []byte(`"tools":[{"function":{"name":"weather","parameters":{"type":"object"}},"type":"function"}]`)},
		{OSL: 256, Kind: rows.Messages, Content: []byte(`[{"content":"Hi","role":"user"}]`)},
	} {
		if err := row.OpenStep(i); err != nil || row.Kind != want.Kind || row.OSL != want.OSL ||
			string(row.Content) != string(want.Content) || string(row.Fields) != string(want.Fields) {
			t.Errorf("%v %v %d\n%s\n%s", err, row.Kind, row.OSL, row.Content, row.Fields)
		}
	}
	if row.Steps[1].Delay.Milliseconds() != 4 {
		t.Errorf("delay %v", row.Steps[1].Delay)
	}
}

func TestLogs(t *testing.T) {
	hi := `"messages":[{"role":"user","content":"Hi"}]`
	source := `{"timestamp":"2026-01-31T12:00:00.5Z","session_id":"s","request":{"model":"m",` + hi + `,"max_tokens":9},"response":{"usage":{"prompt_tokens":3,"completion_tokens":5}},"duration_ms":1500}
{"timestamp":1769860803,"session_id":"s","request":{` + hi + `,"tools":[{"type":"function"}]},"response":{"body":{"usage":{"prompt_tokens":3,"completion_tokens":6}}},"duration_ms":10}
{"startTime":"2026-01-31 12:00:01","trace_id":"s2","end_time":"2026-01-31 12:00:02",` + hi + `,"usage":{"prompt_tokens":3,"completion_tokens":7}}
{"startTime":"2026-01-31 12:00:01.5","trace_id":"s2","endTime":"2026-01-31 12:00:03",` + hi + `}
{"custom_id":"x","body":{` + hi + `,"metadata":{"session_id":"b"},"max_completion_tokens":4},"response":{"body":{"created":1769860801}}}
{"custom_id":"y","body":{` + hi + `,"metadata":{"session_id":"b"}},"response":{"body":{"created":1769860806}}}
{"timestamp":1769860800500,` + hi + `}`
	d, skipped, r := built(t, logOf(playedSessions), source, Options{})
	hiRow := `[{"role":"user","content":"Hi"}]`
	want := strings.ReplaceAll(`
0s: 0=0:5HI 1[0]+1s=0:6HI
0s: 0=0:256HI
500ms: 0=0:7HI 1@500ms=0:256HI
500ms: 0=0:4HI 1[0]@5s=0:256HI
`, "HI", hiRow)
	if got := "\n" + shapeOf(t, r); got != want || skipped.Unusable+skipped.Excluded != 0 || d.GetRows() != 4 {
		t.Errorf("got%swant%s%+v", got, want, skipped)
	}
	if !r.Has(rows.MessagesWithFields) || !r.HasField("tools") {
		t.Error("tools are not kept")
	}
}

func TestUnusableRecordings(t *testing.T) {
	good := recordedSpan("t", "1", "", 0, 5, op, chatSpan, usageIn, `{"intValue":"7"}`)
	for name, c := range map[string]struct {
		w            *spatev1.Workload
		source, want string
	}{
		"no spans":      {otelOf(playedSessions), `{"resourceSpans":[]}`, "it has no spans: give an export in OTLP JSON"},
		"not JSON":      {otelOf(playedSessions), `{"resourceSpans":[}`, "after span 0: it is not JSON"},
		"cut off early": {otelOf(playedSessions), exported(good)[:20], "after span 0: it ends too early"},
		"cut off":       {otelOf(playedSessions), exported(good, good)[:300], "it ends too early"},
		"no request":    {otelOf(playedSessions), exported(recordedSpan("t", "1", "", 0, 5)), "none of its 1 rows makes a request"},
		"no time":       {otelOf(playedSessions), exported(`{"traceId":"t","spanId":"1"}`), `span 1 has the startTimeUnixNano "", not a number`},
		"ends too soon": {otelOf(playedSessions), exported(recordedSpan("t", "1", "", 7, 5)), `span 1 has the endTimeUnixNano "5000000", not a number from its start on`},
		"messages": {otelOf(playedSessions), exported(recordedSpan("t", "1", "", 0, 5, op, chatSpan, "gen_ai.input.messages",
			`{"stringValue":"hi"}`)), "span 1 gen_ai.input.messages: invalid character"},
		"span":     {otelOf(playedSessions), exported(`7`), "span 1 is a number, not an object"},
		"log time": {logOf(playedSessions), `{"timestamp":"now","messages":[]}`, `line 1 timestamp is "now", not a time such as`},
		"no log":   {logOf(playedSessions), `{"messages":[{"role":"user","content":"x"}]}`, "line 1 has no timestamp"},
		"log lengths": {logOf(playedSessions), `{"time":5,"messages":[{"role":"user","content":"x"}],"usage":{"completion_tokens":-1}}`,
			"line 1 its number of output tokens is -1: it must not be negative"},
		"log messages": {logOf(playedSessions), `{"time":5,"messages":{}}`, "line 1 messages is an object, not an array"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(t, c.w, c.source); !strings.Contains(got, c.want) {
				t.Errorf("%s\nwant: %s", got, c.want)
			}
		})
	}
}

// TestCallsOracle: of calls side by side, a request waits for each that had ended before it started, directly or by way
// of others, and for no other.
func TestCallsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type ran struct{ start, end int }
		calls := make([]ran, rapid.IntRange(1, 9).Draw(t, "calls"))
		var lines []string
		for i := range calls {
			calls[i].start = rapid.IntRange(0, 20).Draw(t, "start")
			calls[i].end = calls[i].start + rapid.IntRange(1, 8).Draw(t, "length")
			lines = append(lines, recordedSpan("t", fmt.Sprint(i), "", calls[i].start, calls[i].end, op, chatSpan, usageIn,
				`{"intValue":"7"}`, usageOut, fmt.Sprintf(`{"intValue":"%d"}`, i+1)))
		}
		_, _, r := built(t, otelOf(playedSessions), exported(rapid.Permutation(lines).Draw(t, "lines")...), Options{})
		if r.Len() != 1 {
			t.Fatalf("%d sessions", r.Len())
		}
		steps := rowsOf(t, r)[0].Steps
		before := make([][]int, len(steps)) // everything that a request waits for
		for i, s := range steps {
			one, last := calls[s.OSL-1], 0
			for _, a := range s.After {
				before[i] = append(append(before[i], int(a)), before[a]...)
				last = max(last, calls[steps[a].OSL-1].end)
			}
			if len(s.After) > 0 && s.Delay.Milliseconds() != int64(one.start-last) {
				t.Fatalf("delay %v of %+v after %d", s.Delay, one, last)
			}
			for j, other := range steps {
				if waits := slices.Contains(before[i], j); waits != (calls[other.OSL-1].end <= one.start) {
					t.Fatalf("%+v waits for %+v: %t", one, calls[other.OSL-1], waits)
				}
			}
		}
		if !slices.IsSortedFunc(steps, func(a, b rows.Step) int {
			return cmp.Compare(calls[a.OSL-1].start, calls[b.OSL-1].start)
		}) {
			t.Fatal("steps are not in the order of their starts")
		}
	})
}

// TestSageMaker: a line of a data capture has the request and the response as texts. What is not JSON is left out.
func TestSageMaker(t *testing.T) {
	const line = `{"captureData": {"endpointInput": {"mode": "INPUT", "encoding": "JSON",
		"data": "{\"messages\": [{\"role\": \"user\", \"content\": \"Why?\"}], \"max_tokens\": 50}"},
		"endpointOutput": {"data": %q}}, "eventMetadata": {"inferenceTime": "2026-02-25T10:00:0%dZ"}}`
	source := fmt.Sprintf(line, `{"usage": {"prompt_tokens": 9, "completion_tokens": 20}}`, 1) + "\n" +
		fmt.Sprintf(line, "data: {}", 3)
	d, _, r := built(t, logOf(&spatev1.TraceContent{}), strings.ReplaceAll(source, "\n\t\t", " "), Options{})
	all := rowsOf(t, r)
	if len(all) != 2 || all[0].OSL != 20 || all[1].OSL != 50 || d.GetSpan().AsDuration() != 2*time.Second ||
		strings.Count(shapeOf(t, r), "Why?") != 2 {
		t.Errorf("%v over %v", all, d.GetSpan().AsDuration())
	}
}
