package stream

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/clock"
)

// timed is an event and its arrival, in milliseconds.
type timed struct {
	at   int
	data string
}

// playTimed feeds events to a client at their times. It returns the observation and the tokens passed to OnToken.
func playTimed(t *testing.T, api string, events []timed) (o *Observation, live []int) {
	t.Helper()
	c := newTestClient(t, Config{API: api, Endpoints: []string{"http://h"}})
	o = new(Observation)
	x := new(exchange)
	x.reset(c, Request{}, o)
	x.timer = time.NewTimer(time.Hour)
	x.onToken = func(_ clock.Instant, n int) { live = append(live, n) }
	for i, e := range events {
		at := clock.Instant(e.at) * clock.Instant(time.Millisecond)
		x.Consume(
			[]byte("data: "+e.data+"\n\n"),
			socket.Reading{At: at, Seen: at, Number: uint64(i + 1), Stamped: true},
		)
	}
	switch {
	case o.Err != nil:
	case x.done:
		x.complete(o.End)
	default:
		x.bodyEnded(io.EOF, x.last)
	}
	return o, live
}

// Frames of a chat as engines send them.
func delta(fields, finish, more string) string {
	if finish == "" {
		finish = "null"
	}
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{%s},"finish_reason":%s}]%s}`, fields, finish, more)
}

func chatText(s string) string { return delta(fmt.Sprintf(`"content":%q`, s), "", "") }

func runningUsage(n int) string {
	return fmt.Sprintf(`,"usage":{"prompt_tokens":9,"completion_tokens":%d}`, n)
}

func chatUsage(n int) string {
	return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d}}`, n)
}

const (
	chatRole  = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	stop      = `"stop"`
	lengthEnd = `"length"`
)

// Which frames of real engines' streams carry a token, and which of them vLLM's benchmark client timestamps. Times are
// in milliseconds. tokens and chunks list the times of such frames.
func TestWhichFramesCarryATokenIsDecidedByTheWholeStream(t *testing.T) {
	for _, c := range []struct {
		name, api      string
		events         []timed
		tokens, chunks string
		text, answer   int // first text, first answer
		n              uint64
		undecided      bool
	}{
		{
			name: "vLLM: half a character in the middle",
			events: []timed{
				{100, chatRole}, {100, chatText("a")}, {120, chatText("")}, {140, chatText("b")},
				{160, delta(`"content":"c"`, lengthEnd, "")}, {160, chatUsage(4)},
			},
			tokens: "100 120 140 160", chunks: "100 100 120 140 160", text: 100, answer: 100, n: 4,
		},
		{
			name: "vLLM: the first two and the last two tokens have no text, of ten",
			events: []timed{
				{102, chatRole}, {102, chatText("")}, {122, chatText("")}, {142, chatText("a")}, {162, chatText("b")},
				{182, chatText("c")}, {202, chatText("d")}, {222, chatText("e")}, {242, chatText("f")},
				{262, chatText("")},
				{282, delta(`"content":""`, lengthEnd, "")}, {282, chatUsage(10)},
			},
			tokens: "102 122 142 162 182 202 222 242 262 282", chunks: "102 102 122 142 162 182 202 222 242 262 282",
			text: 142, answer: 142, n: 10,
		},
		{
			name: "vLLM: a natural end, whose token has no text",
			events: []timed{
				{100, chatRole}, {100, chatText("a")}, {120, chatText("b")}, {140, delta(`"content":""`, stop, "")},
				{140, chatUsage(3)},
			},
			tokens: "100 120 140", chunks: "100 100 120 140", text: 100, answer: 100, n: 3,
		},
		{
			name: "vLLM: nothing but the end",
			events: []timed{
				{100, chatRole}, {100, delta(`"content":""`, stop, "")}, {100, chatUsage(1)},
			},
			tokens: "100", chunks: "100 100", n: 1,
		},
		{
			name: "vLLM with running usage",
			events: []timed{
				{100, delta(`"role":"assistant","content":""`, "", runningUsage(0))},
				{100, delta(`"content":""`, "", runningUsage(1))},
				{120, delta(`"content":"a"`, "", runningUsage(3))}, {140, delta(`"content":""`, "", runningUsage(3))},
				{160, delta(`"content":""`, stop, runningUsage(4))}, {160, chatUsage(4)},
			},
			tokens: "100 120 160", chunks: "100 100 120 140 160", text: 120, answer: 120, n: 4,
		},
		{
			name: "OpenAI: a finish frame without a token, right behind the last",
			events: []timed{
				{100, chatRole}, {110, chatText("a")}, {120, chatText("b")}, {121, delta("", stop, "")},
				{121, chatUsage(2)},
			},
			tokens: "110 120", chunks: "100 110 120 121", text: 110, answer: 110, n: 2,
		},
		{
			name: "SGLang: the end's token has a frame without text of its own",
			events: []timed{
				{100, chatRole}, {100, chatText("a")}, {120, chatText("b")}, {140, delta("", stop, "")},
				{140, chatUsage(3)},
			},
			tokens: "100 120 140", chunks: "100 100 120 140", text: 100, answer: 100, n: 3,
		},
		{
			name: "several tokens a frame, and a natural end in its own step",
			events: []timed{
				{100, chatRole}, {100, chatText("a b c d")}, {140, chatText("e f g h")},
				{180, delta(`"content":""`, stop, "")}, {180, chatUsage(9)},
			},
			tokens: "100 140 180", chunks: "100 100 140 180", text: 100, answer: 100, n: 9,
		},
		{
			name: "several tokens a frame, and a finish frame at once behind the last",
			events: []timed{
				{100, chatRole}, {100, chatText("a b c d")}, {140, chatText("e f g h")},
				{141, delta(`"content":""`, stop, "")}, {141, chatUsage(8)},
			},
			tokens: "100 140", chunks: "100 100 140 141", text: 100, answer: 100, n: 8,
		},
		{
			name: "hidden thinking before the answer",
			events: []timed{
				{1000, chatRole}, {1000, chatText("a")}, {1020, chatText("b")}, {1040, delta("", stop, "")},
				{1040, chatUsage(200)},
			},
			tokens: "1000 1020", chunks: "1000 1000 1020 1040", text: 1000, answer: 1000, n: 200,
		},
		{
			name: "empty frames that keep the connection alive",
			events: []timed{
				{50, chatRole}, {60, chatText("")}, {70, chatText("")}, {100, chatText("a")}, {120, chatText("b")},
				{121, delta("", stop, "")}, {121, chatUsage(2)},
			},
			tokens: "100 120", chunks: "50 60 70 100 120 121", text: 100, answer: 100, n: 2,
		},
		{
			name: "more empty frames than tokens are left for",
			events: []timed{
				{50, chatRole}, {60, chatText("")}, {100, chatText("a")}, {110, chatText("")}, {120, chatText("b")},
				{120, chatUsage(3)},
				{120, "[DONE]"},
			},
			tokens: "100 120", chunks: "50 60 100 110 120", text: 100, answer: 100, n: 3, undecided: true,
		},
		{
			name: "SGLang: half a character comes with the next frame, and the finish frame at once behind the last",
			events: []timed{
				{100, chatRole}, {120, chatText("a")}, {160, chatText("é")}, {180, chatText("b")},
				{181, delta("", lengthEnd, "")}, {181, chatUsage(4)},
			},
			tokens: "120 160 180", chunks: "100 120 160 180 181", text: 120, answer: 120, n: 4,
		},
		{
			name: "no usage: frames without text count between frames with text",
			events: []timed{
				{90, chatRole}, {95, chatText("")}, {100, chatText("a")}, {120, chatText("")}, {140, chatText("b")},
				{160, delta(`"content":""`, stop, "")},
			},
			tokens: "100 120 140", chunks: "90 95 100 120 140 160", text: 100, answer: 100, n: 3,
		},
		{
			name: "usage of 0 tokens does not count if tokens arrived",
			events: []timed{
				{90, chatRole}, {100, chatText("a")}, {120, chatText("")}, {140, chatText("b")},
				{141, delta("", stop, "")}, {141, chatUsage(0)},
			},
			tokens: "100 120 140", chunks: "90 100 120 140 141", text: 100, answer: 100, n: 3,
		},
		{
			name: "token ids tell",
			events: []timed{
				{90, chatRole}, {100, `{"choices":[{"delta":{"content":""},"token_ids":[7]}]}`},
				{120, `{"choices":[{"delta":{"content":"a"},"token_ids":[8]}]}`},
				{140, `{"choices":[{"delta":{"content":""},"finish_reason":"stop","token_ids":[2]}]}`},
			},
			tokens: "100 120 140", chunks: "90 100 120 140", text: 120, answer: 120, n: 3,
		},
		{
			name: "usage in the last frame alone does not run",
			events: []timed{
				{90, chatRole}, {100, chatText("a")}, {120, chatText("b")}, {121, delta("", stop, runningUsage(2))},
			},
			tokens: "100 120", chunks: "90 100 120 121", text: 100, answer: 100, n: 2,
		},
		{
			name: "completions: no role frame", api: "completions",
			events: []timed{
				{100, `{"choices":[{"text":""}]}`}, {120, `{"choices":[{"text":"a"}]}`},
				{140, `{"choices":[{"text":"","finish_reason":"stop"}]}`}, {140, chatUsage(3)},
			},
			tokens: "100 120 140", chunks: "100 120 140", text: 120, answer: 120, n: 3,
		},
		{
			name: "reasoning, then the answer",
			events: []timed{
				{90, chatRole}, {100, delta(`"reasoning_content":"hm"`, "", "")},
				{120, delta(`"reasoning_content":"so"`, "", "")}, {140, chatText("a")},
				{141, delta("", stop, "")}, {141, chatUsage(3)},
			},
			tokens: "100 120 140", chunks: "90 100 120 140 141", text: 100, answer: 140, n: 3,
		},
		{
			name: "vLLM's responses: the end's token has no delta", api: "responses",
			events: []timed{
				{90, `{"type":"response.created","response":{}}`},
				{100, `{"type":"response.output_item.added","item":{"type":"message"}}`},
				{100, `{"type":"response.output_text.delta","delta":"a"}`},
				{120, `{"type":"response.output_text.delta","delta":"b"}`},
				{140, `{"type":"response.output_text.done","text":"ab"}`},
				{140, `{"type":"response.output_item.done","item":{}}`},
				{140, `{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":9,"output_tokens":3}}}`},
			},
			tokens: "100 120 140", chunks: "100 120", text: 100, answer: 100, n: 3,
		},
		{
			name: "responses: reasoning ends before the answer begins", api: "responses",
			events: []timed{
				{100, `{"type":"response.reasoning_text.delta","delta":"hm"}`},
				{120, `{"type":"response.reasoning_text.done"}`},
				{120, `{"type":"response.output_text.delta","delta":"a"}`},
				{140, `{"type":"response.output_text.delta","delta":"b"}`},
				{140, `{"type":"response.incomplete","response":{"status":"incomplete","usage":{"input_tokens":9,"output_tokens":4}}}`},
			},
			tokens: "100 120 140", chunks: "100 120 140", text: 100, answer: 120, n: 4,
		},
		{
			name: "vLLM's messages of Anthropic's: the end's token closes the block", api: "anthropic",
			events: []timed{
				{90, `{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":0}}}`},
				{100, `{"type":"content_block_start","content_block":{"type":"text","text":""}}`},
				{100, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`},
				{120, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"b"}}`},
				{140, `{"type":"content_block_stop"}`},
				{140, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`},
				{140, `{"type":"message_stop"}`},
			},
			tokens: "100 120 140", chunks: "100 120", text: 100, answer: 100, n: 3,
		},
		{
			name: "SGLang's own API: running usage tells a token without text", api: "sglang",
			events: []timed{
				{100, `{"text":"","meta_info":{"prompt_tokens":9,"completion_tokens":1,"finish_reason":null}}`},
				{120, `{"text":"a","meta_info":{"prompt_tokens":9,"completion_tokens":2,"finish_reason":null}}`},
				{140, `{"text":"a","meta_info":{"prompt_tokens":9,"completion_tokens":3,"finish_reason":{"type":"stop"}}}`}, {140, "[DONE]"},
			},
			tokens: "100 120 140", chunks: "100 120 140", text: 120, answer: 120, n: 3,
		},
		{
			name: "TGI: the end is a special token", api: "tgi",
			events: []timed{
				{100, `{"token":{"id":7,"text":"a","special":false}}`},
				{120, `{"token":{"id":2,"text":"</s>","special":true},"generated_text":"a","details":{"finish_reason":"eos_token","generated_tokens":2,"input_length":9}}`},
			},
			tokens: "100 120", chunks: "100 120", text: 100, answer: 100, n: 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.api == "" {
				c.api = "chat"
			}
			o, live := playTimed(t, c.api, c.events)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			var tokens, chunks []string
			for _, f := range o.Frames {
				at := fmt.Sprint(f.At() / clock.Instant(time.Millisecond))
				if f.Token() {
					tokens = append(tokens, at)
				}
				if f.Chunk() {
					chunks = append(chunks, at)
				}
			}
			if got := strings.Join(tokens, " "); got != c.tokens {
				t.Errorf("tokens at %s, want %s", got, c.tokens)
			}
			if got := strings.Join(chunks, " "); got != c.chunks {
				t.Errorf("chunks at %s, want %s", got, c.chunks)
			}
			if int(o.TokenFrames) != len(tokens) || o.OutputTokens != c.n && o.Usage || o.Undecided != c.undecided {
				t.Errorf("%d token frames, %d tokens, undecided %v", o.TokenFrames, o.OutputTokens, o.Undecided)
			}
			ms := clock.Instant(time.Millisecond)
			if o.FirstText/ms != clock.Instant(c.text) || o.FirstAnswer/ms != clock.Instant(c.answer) {
				t.Errorf("first text at %d, first answer at %d, want %d and %d", o.FirstText/ms, o.FirstAnswer/ms,
					c.text, c.answer)
			}
			if len(tokens) > 0 && fmt.Sprint(o.FirstToken/ms, " ", o.LastToken/ms) != tokens[0]+" "+
				tokens[len(tokens)-1] {
				t.Errorf("first token at %d, last at %d", o.FirstToken/ms, o.LastToken/ms)
			}
			if len(live) < len(tokens) {
				t.Errorf("%d frames were reported as they arrived, of %d", len(live), len(tokens))
			}
		})
	}
}

// The tokens of each frame by running usage as the frame arrives, and frames whose tokens are not known.
func TestTokensAreReportedAsTheyArrive(t *testing.T) {
	for name, c := range map[string]struct {
		api    string
		events []timed
		want   string
	}{
		"running": {"chat", []timed{
			{90, delta(`"role":"assistant","content":""`, "", runningUsage(0))},
			{100, delta(`"content":"a"`, "", runningUsage(1))},
			{110, delta(`"content":"b c d"`, "", runningUsage(4))}, {120, delta(`"content":""`, stop, runningUsage(5))},
		}, "[1 3 1]"},
		"a role frame without usage": {"chat", []timed{
			{90, chatRole}, {100, delta(`"content":"a"`, "", runningUsage(1))},
			{110, delta(`"content":"b"`, lengthEnd, runningUsage(2))},
		}, "[1 1]"},
		"at the end alone": {"chat", []timed{
			{90, chatRole}, {100, chatText("a")}, {110, delta(`"content":"b"`, lengthEnd, runningUsage(2))},
		}, "[-1 -1]"},
		"none": {"chat", []timed{{90, chatRole}, {100, chatText("a")}, {110, chatText("b")},
			{111, delta("", stop, "")}}, "[-1 -1]"},
		"TGI has one a frame": {"tgi", []timed{
			{100, `{"token":{"id":7,"text":"a"}}`},
			{110, `{"token":{"id":8,"text":"b"},"generated_text":"ab","details":{"generated_tokens":2,"input_length":3,"finish_reason":"length"}}`},
		}, "[1 1]"},
	} {
		if _, live := playTimed(t, c.api, c.events); fmt.Sprint(live) != c.want {
			t.Errorf("%s: %v, want %s", name, live, c.want)
		}
	}
}

func TestReasoningTokens(t *testing.T) {
	think := func(s string) string { return delta(fmt.Sprintf(`"reasoning_content":%q`, s), "", "") }
	for name, c := range map[string]struct {
		events []timed
		want   string // tokens, frames
	}{
		"by usage": {[]timed{
			{90, chatRole}, {100, think("a b")}, {110, chatText("c")}, {111, delta("", stop, "")},
			{111, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":2}}}`},
		}, "2 true 1"},
		"hidden": {[]timed{
			{90, chatRole}, {110, chatText("c")}, {111, delta("", stop, "")},
			{111, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":101,"completion_tokens_details":{"reasoning_tokens":100}}}`},
		}, "100 true 0"},
		"by running usage": {[]timed{
			{90, delta(`"role":"assistant"`, "", runningUsage(0))},
			{100, delta(`"reasoning":"a b"`, "", runningUsage(2))},
			{110, delta(`"content":"c"`, stop, runningUsage(3))},
		}, "2 true 1"},
		"by frames": {[]timed{{90, chatRole}, {100, think("a")}, {105, think("b")}, {110, chatText("c")},
			{111, delta("", stop, "")}, {111, chatUsage(3)}}, "2 true 2"},
		"unknown": {[]timed{{90, chatRole}, {100, think("a b")}, {110, chatText("c d")},
			{111, delta("", stop, "")}, {111, chatUsage(4)}}, "0 false 1"},
		"none": {[]timed{
			{90, chatRole}, {110, chatText("c")}, {111, delta("", stop, "")},
			{111, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":0}}}`},
		}, "0 false 0"},
	} {
		o, _ := playTimed(t, "chat", c.events)
		if got := fmt.Sprint(o.ReasoningTokens, o.HasReasoningTokens, o.ReasoningFrames); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestServerTiming(t *testing.T) {
	o, _ := playTimed(t, "chat", []timed{
		{90, chatRole}, {100, delta(`"content":"a"`, "", `,"nvext":null`)},
		{110, delta(`"content":"b"`, lengthEnd,
			`,"nvext":{"worker_id":{"prefill_worker_id":1},"timing":{"request_received_ms":1777312800000,`+
				`"prefill_wait_time_ms":12.5,"prefill_time_ms":70.25,"ttft_ms":82.75,"total_time_ms":-1,"kv_hit_rate":0.5}}`)},
	})
	s := o.Server
	if s.Queue == nil || *s.Queue != 12500*time.Microsecond || *s.Prefill != 70250*time.Microsecond ||
		*s.TTFT != 82750*time.Microsecond || s.Total != nil {
		t.Errorf("%+v", s)
	}
}

func TestAnswersWrittenAtOnce(t *testing.T) {
	c := newTestClient(t, Config{Endpoints: []string{"http://h"}})
	all := chatRole + "\n\ndata: " + chatText("a") + "\n\ndata: " + chatText("b") + "\n\ndata: " + delta("", stop, "")
	o := play(c, []byte("data: "+all+"\n\ndata: [DONE]\n\n"), io.EOF)
	if !o.WrittenAtOnce || o.TokenFrames != 2 {
		t.Errorf("one read %v, %d frames", o.WrittenAtOnce, o.TokenFrames)
	}
	if o := play(c, []byte("data: "+chatText("a")+"\n\ndata: [DONE]\n\n"), io.EOF); o.WrittenAtOnce {
		t.Error("one frame is not news")
	}
	for frames, want := range map[int]bool{40: false, 60: true} { // 25.6 and 16.9 us apart on average
		events := []timed{{100, chatRole}}
		for i := range frames {
			events = append(events, timed{100 + i*2/frames, chatText("a")})
		}
		if o, _ := playTimed(t, "chat", append(events, timed{101, delta("", stop, "")})); o.WrittenAtOnce != want {
			t.Errorf("%d frames in 1 ms: one read %v", frames, o.WrittenAtOnce)
		}
	}
}

func TestFramesOfOneReadAreCounted(t *testing.T) {
	x := &exchange{o: &Observation{}}
	reads := []socket.Reading{
		{At: 100, Seen: 110, Number: 1, Stamped: true},
		{At: 200, Seen: 230, Number: 2, Stamped: true}, {At: 200, Seen: 230, Number: 2, Stamped: true},
		{At: 200, Seen: 230, Number: 2, Stamped: true},
		{At: 300, Seen: 300, Number: 3},
		{At: 350, Seen: 400, Number: 4, Stamped: true}, {At: 350, Seen: 400, Number: 4, Stamped: true},
	}
	for _, r := range reads {
		x.token(&api.Frame{Token: true}, r, TokensUnknown)
	}
	o := x.o
	if o.SharedFrames != 3 || o.LateFirst || o.LateLast {
		t.Errorf("%d frames share a time; late first %v, last %v", o.SharedFrames, o.LateFirst, o.LateLast)
	}
	if o.CoalescedReads != 2 || o.UnstampedFrames != 1 || o.TokenFrames != 7 || len(o.Lags) != 3 ||
		len(o.Gaps(nil)) != 6 {
		t.Errorf("%+v", o)
	}
	if o.FirstToken != 100 || o.LastToken != 350 || o.Gaps(nil)[0] != 100 || o.Gaps(nil)[1] != 0 || o.Lags[1] != 30 {
		t.Errorf("%+v", o)
	}
}

// The first frame has no time of its own if it shares a read or has no timestamp, unless it has its packet's.
func TestFirstAndLastFramesWithoutATime(t *testing.T) {
	stamped := socket.Reading{At: 100, Seen: 110, Number: 1, Stamped: true}
	packet, bare := stamped, stamped
	packet.Packet, bare.Stamped = true, false
	second := socket.Reading{At: 200, Seen: 210, Number: 2, Stamped: true}
	late := socket.Reading{At: 200, Seen: 210, Number: 2}
	for name, c := range map[string]struct {
		reads       []socket.Reading
		first, last bool
	}{
		"own":         {[]socket.Reading{stamped, second, second}, false, false},
		"shared":      {[]socket.Reading{stamped, stamped, second}, true, false},
		"of packets":  {[]socket.Reading{packet, packet, second}, false, false},
		"unstamped":   {[]socket.Reading{bare, second}, true, false},
		"last is not": {[]socket.Reading{stamped, late}, false, true},
	} {
		x := &exchange{o: &Observation{}}
		for _, r := range c.reads {
			x.token(&api.Frame{Token: true}, r, TokensUnknown)
		}
		if x.o.LateFirst != c.first || x.o.LateLast != c.last {
			t.Errorf("%s: late first %v, last %v", name, x.o.LateFirst, x.o.LateLast)
		}
	}
}

// contentFrame returns a frame with text, which is inserted between the quotes as it is.
func contentFrame(raw string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + raw + `"},"finish_reason":null}]}` + "\n\n"
}

// answerOf streams frames to a client and returns the answer that the client kept.
func answerOf(t testing.TB, config Config, keep bool, frames ...string) []byte {
	t.Helper()
	parts := []string{chunkedHead}
	for _, f := range append(frames, finishFrame, doneFrame) {
		parts = append(parts, chunk(f))
	}
	s := testserver.NewRaw(t, answer(append(parts, lastChunk)...))
	config.Endpoints = []string{s.URL}
	c := newTestClient(t, config)
	o := Observation{Answer: []byte("of the request before")}
	c.Do(t.Context(), Request{Body: body(c), KeepAnswer: keep}, &o)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Answer
}

func TestAnswers(t *testing.T) {
	reasoning := `data: {"choices":[{"delta":{"reasoning_content":"hm","tool_calls":[{"function":{"name":"f"}}],"refusal":"no"}}]}` + "\n\n"
	second := `data: {"choices":[{"index":1,"delta":{"content":"other"}}]}` + "\n\n"
	for name, tt := range map[string]struct {
		want   string
		frames []string
	}{
		"joined":                 {"one two", []string{roleFrame, contentFrame("one"), contentFrame(" two")}},
		"escapes":                {`a\n\"\u00e9\\`, []string{contentFrame(`a\n\"`), contentFrame(`\u00e9\\`)}},
		"reasoning is none":      {"a", []string{reasoning, contentFrame("a"), reasoning}},
		"the first choice only":  {"a", []string{second, contentFrame("a")}},
		"a pair split":           {`\ud83d\ude00`, []string{contentFrame(`\ud83d`), contentFrame(`\ude00`)}},
		"half a pair":            {`\ufffda`, []string{contentFrame(`\ud83d`), contentFrame(`a`)}},
		"half a pair at the end": {`a\ufffd`, []string{contentFrame(`a`), contentFrame(`\uD83D`)}},
		"the wrong half":         {`\ufffd\ufffd`, []string{contentFrame(`\ude00\ud83d`)}},
		"half a pair and a pair": {`\ufffd\ud83d\ude00`, []string{contentFrame(`\ud83d\ud83d\ude00`)}},
		"an escaped backslash":   {`\\ud83d`, []string{contentFrame(`\\ud83d`)}},
		"a character split":      {"é", []string{contentFrame("\xc3"), contentFrame("\xa9")}},
		"broken UTF-8":           {"a\ufffdb", []string{contentFrame("a\xc3"), contentFrame("b")}},
		"completions":            {"one", []string{`data: {"choices":[{"index":0,"text":"one"}]}` + "\n\n"}},
		"a frame of another order": {"one",
			[]string{`data: {"choices":[{"delta":{"\u0063ontent":"one"},"index":0.0}]}` + "\n\n"}},
	} {
		if got := answerOf(t, Config{}, true, tt.frames...); string(got) != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if got := answerOf(t, Config{}, false, tt.frames...); len(got) != 0 {
			t.Errorf("%s: kept %q unasked", name, got)
		}
	}
}

func TestCachedTokens(t *testing.T) {
	usage := func(details string) string {
		return chunk(`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"prompt_tokens_details":` +
			details + "}}\n\n")
	}
	for name, tt := range map[string]struct {
		frames   string
		cached   uint64
		reported bool
	}{
		"reported":      {usage(`{"cached_tokens":4}`), 4, true},
		"none":          {usage(`{"cached_tokens":0}`), 0, true},
		"null":          {usage(`null`), 0, false},
		"unknown":       {usage(`{"cached_tokens":null}`), 0, false},
		"reported once": {usage(`{"cached_tokens":4}`) + usage(`null`), 4, true},
		"no usage":      {"", 0, false},
	} {
		s := testserver.NewRaw(t, answer(chunkedHead, chunk(tokenFrame("a")), tt.frames, chunk(doneFrame), lastChunk))
		o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}}))
		if o.Err != nil || o.CachedTokens != tt.cached || o.HasCachedTokens != tt.reported {
			t.Errorf("%s: %d, %v (%v)", name, o.CachedTokens, o.HasCachedTokens, o.Err)
		}
	}
}
