package recorder

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// apis are the endpoints' APIs, by the first byte of a fuzzed answer.
var apis = []string{"chat", "completions", "responses", "sglang", "tgi", "triton", "anthropic"}

const okHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

// oddAnswers are answers that are or may be faulty, with each API's form of usage.
var oddAnswers = []string{
	"HTTP/1.1 099 x\r\n\r\n",
	"HTTP/1.1 999 \r\nContent-Length: 3\r\n\r\n\xff\xfe\x00",
	okHead + `data: {"choices":[{"text":"a","delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":70000000000}}` + "\n\n",
	okHead + `data: {"choices":[{"text":"a","delta":{"content":"a"}}],"usage":{"prompt_tokens":4294967301,"completion_tokens":1,` +
		`"prompt_tokens_details":{"cached_tokens":99999999999},"completion_tokens_details":{"reasoning_tokens":1e15}}}` + "\n\ndata: [DONE]\n\n",
	okHead + `data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":9223372036854775807}}` + "\n\ndata: [DONE]\n\n",
	okHead + `data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1e99,"completion_tokens":18446744073709551616}}` + "\n\ndata: [DONE]\n\n",
	okHead + `data: {"type":"response.completed","response":{"usage":{"input_tokens":1e17,"output_tokens":5}}}` +
		"\n\n",
	okHead + `data: {"text":"ab","meta_info":{"prompt_tokens":5,"completion_tokens":99999999999,"cached_tokens":1}}` +
		"\n\n",
	okHead + `data: {"token":{"text":"a","special":false},"generated_text":"a","details":{"generated_tokens":99999999999,"finish_reason":"length"}}` + "\n\n",
	okHead + `data: {"type":"message_start","message":{"usage":{"input_tokens":99999999999,"output_tokens":1}}}` +
		"\n\n",
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
}

// FuzzAnswer makes a server answer with any bytes, in any API. The coordinator must accept what an agent records of
// that.
func FuzzAnswer(f *testing.F) {
	for _, a := range oddAnswers {
		for api := range apis {
			f.Add(byte(api), []byte(a))
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	var answers atomic.Pointer[[]byte]
	go serveEach(l, &answers)
	clients := make([]*stream.Client, len(apis))
	for i, api := range apis {
		clients[i], err = stream.New(stream.Config{
			Endpoints: []string{"http://" + l.Addr().String()}, API: api, Model: "m",
			RequestTimeout: 200 * time.Millisecond, Connection: wire.Settings{New: true},
		})
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(clients[i].Close)
	}
	j := newJudge(1)
	f.Fuzz(func(t *testing.T, api byte, answer []byte) {
		answers.Store(&answer)
		if err := j.refusal(recordOne(clients[int(api)%len(apis)])); err != nil {
			t.Error(err)
		}
	})
}

// recordOne sends one request and returns its snapshots.
func recordOne(c *stream.Client) (snapshots []*spatev1.Snapshot) {
	begin := clock.Now()
	r := New(Config{
		Start: begin, Endpoints: 1, Shards: 1, Records: true, Now: clock.Now,
		Emit: func(s *spatev1.Snapshot) { snapshots = append(snapshots, s) },
	})
	q := &Request{Scheduled: clock.Now(), ISL: 3, OSL: 5}
	shard := r.Shard(0)
	shard.RecordStart(q, clock.Now())
	var o stream.Observation
	c.Do(context.Background(), stream.Request{
		Body: []byte("{}"), Tokens: q.OSL, KeepAnswer: true,
		OnToken: func(at clock.Instant, tokens int) { shard.RecordToken(q, at, tokens) },
	}, &o)
	shard.RecordEnd(q, &o)
	r.Finish(&spatev1.Totals{})
	return snapshots
}

// serveEach sends one answer on each connection and closes the connection.
func serveEach(l net.Listener, answers *atomic.Pointer[[]byte]) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if q, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_ = q.Body.Close()
			_, _ = c.Write(*answers.Load())
		}
		_ = c.Close()
	}
}
