package stream

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/testserver"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const runawayClass = spatev1.ErrorClass_ERROR_CLASS_RUNAWAY

// endlessResponse sends a head and then the same bytes, until the client disconnects.
func endlessResponse(head, again string) func(net.Conn, *bufio.Reader) {
	block := []byte(strings.Repeat(again, max(1, (1<<20)/len(again))))
	return func(c net.Conn, r *bufio.Reader) {
		if !testserver.TakeRequest(r) {
			return
		}
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
}

const (
	endlessHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	jsonHead    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
)

// endless are answers without an end, and the class of their failure.
var endless = map[string]struct {
	head, again string
	class       spatev1.ErrorClass
}{
	"frames":           {endlessHead, tokenFrame("a"), runawayClass},
	"role frames":      {endlessHead, roleFrame, runawayClass},
	"large frames":     {endlessHead, tokenFrame(strings.Repeat("long ", 10_000)), runawayClass},
	"finish frames":    {endlessHead, finishFrame, runawayClass},
	"newlines":         {endlessHead, "\n", runawayClass},
	"returns":          {endlessHead, "\r", runawayClass},
	"comments":         {endlessHead, ": comment\n\n", runawayClass},
	"unknown fields":   {endlessHead, "x: y\n\n", runawayClass},
	"frames unwatched": {endlessHead, `data: {"id":"1"}` + "\n\n", runawayClass},
	"one line":         {endlessHead, "data: aaaaaaaaaaaaaaaa", spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME},
	"one event":        {endlessHead, "data: {}\n", spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME},
	"one JSON value":   {jsonHead, `{"choices":[` + strings.Repeat(" ", 4000), spatev1.ErrorClass_ERROR_CLASS_RUNAWAY},
	"one head":         {"HTTP/1.1 200 OK\r\n", "X-A: b\r\n", spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME},
	"chunks":           {chunkedHead, chunk(tokenFrame("a")), runawayClass},
	"one chunk size":   {chunkedHead, "0", spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME},
}

// An answer without an end is ended within its memory budget, with the right class, and returns its memory.
func TestEndlessAnswersAreEnded(t *testing.T) {
	const budget = 4 << 20
	for name, e := range endless {
		t.Run(name, func(t *testing.T) {
			s := testserver.NewRaw(t, endlessResponse(e.head, e.again))
			memory := NewMemory(budget)
			c := newTestClient(t, Config{Endpoints: []string{s.URL}, RequestTimeout: 20 * time.Second, Memory: memory,
				MaxOutput: 256})
			var o Observation
			c.Do(t.Context(), Request{Body: body(c), Tokens: 5, KeepAnswer: true}, &o)
			if o.Err == nil || o.Err.Class != e.class {
				t.Errorf("%v, want %v", o.Err, e.class)
			}
			if holds := frameBytes*cap(o.Frames) + cap(o.Answer); holds > budget+freeBytes {
				t.Errorf("the answer holds %d bytes", holds)
			}
			if left := memory.used.Load(); left != 0 {
				t.Errorf("%d bytes are not given back", left)
			}
		})
	}
}

// Streams share the agent's Memory. A stream within what was asked for needs none of it.
func TestAnswersShareTheAgentsMemory(t *testing.T) {
	memory := NewMemory(0)
	frames := strings.Repeat(chunk(tokenFrame("a")), 20_000)
	s := testserver.NewRaw(t, answer(chunkedHead, frames, chunk(finishFrame), chunk(doneFrame), lastChunk))
	c := newTestClient(t, Config{Endpoints: []string{s.URL}, Memory: memory, MaxOutput: 30_000})
	for _, ask := range []struct {
		tokens uint32
		class  spatev1.ErrorClass
	}{{20_000, 0}, {5, runawayClass}} {
		var o Observation
		c.Do(t.Context(), Request{Body: body(c), Tokens: ask.tokens}, &o)
		if class := classOf(&o); class != ask.class {
			t.Errorf("%d tokens asked for: %v", ask.tokens, o.Err)
		}
	}
}

// classOf returns the class of a request's failure, 0 for none.
func classOf(o *Observation) spatev1.ErrorClass {
	if o.Err == nil {
		return 0
	}
	return o.Err.Class
}

// A server that sends faster than its bytes are parsed delays neither its own timeout nor other streams.
func TestFloodDoesNotDelayOthers(t *testing.T) {
	const timeout = time.Second
	flood := testserver.NewRaw(t, endlessResponse(endlessHead, "\n"))
	good := testserver.NewRaw(t, answer(chunkedHead, chunk(tokenFrame("a")), chunk(finishFrame),
		chunk(doneFrame), lastChunk))
	c := newTestClient(t, Config{
		Endpoints: []string{flood.URL, good.URL}, RequestTimeout: timeout, FirstTokenTimeout: timeout / 2,
		MaxOutput: 1 << 20,
	})
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) { // so that each sweeper has one
		all.Go(func() {
			var o Observation
			c.Do(t.Context(), Request{Body: body(c)}, &o)
			if took := o.End.Sub(o.Start); classOf(&o) != spatev1.ErrorClass_ERROR_CLASS_TIMEOUT || took > 10*timeout {
				t.Errorf("after %v: %v", took, o.Err)
			}
		})
	}
	for begin := clock.Now(); clock.Now().Sub(begin) < timeout/2; {
		var o Observation
		c.Do(t.Context(), Request{Endpoint: 1, Body: body(c)}, &o)
		if o.Err != nil {
			t.Errorf("another stream: %v", o.Err)
		}
	}
	all.Wait()
}

// Impossible numbers fail their request, in any notation.
func TestImpossibleNumbers(t *testing.T) {
	const outOfRange = spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE
	usage := func(fields string) string {
		return chunkedHead + chunk(tokenFrame("a")) + chunk(finishFrame) +
			chunk(`data: {"choices":[],"usage":{`+fields+"}}\n\n") +
			chunk(doneFrame) + lastChunk
	}
	for response, want := range map[string]spatev1.ErrorClass{
		"HTTP/1.1 099 x\r\n\r\n":                                            outOfRange,
		"HTTP/1.1 99 x\r\n\r\n":                                             outOfRange,
		"HTTP/1.1 1000 x\r\n\r\n":                                           outOfRange,
		"HTTP/1.1 2OO x\r\n\r\n":                                            spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		"HTTP/1.1 000 x\r\n\r\n":                                            outOfRange,
		"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n":                       spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
		usage(`"prompt_tokens":1,"completion_tokens":70000000000`):          outOfRange,
		usage(`"prompt_tokens":4294967301,"completion_tokens":1`):           outOfRange,
		usage(`"prompt_tokens":1,"completion_tokens":1e15`):                 outOfRange,
		usage(`"prompt_tokens":1,"completion_tokens":9223372036854775807`):  outOfRange,
		usage(`"prompt_tokens":1,"completion_tokens":18446744073709551616`): outOfRange,
		usage(`"prompt_tokens":1e400,"completion_tokens":1`):                outOfRange,
		usage(`"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":99999999999}`):     outOfRange,
		usage(`"prompt_tokens":1,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":1e10}`):     outOfRange,
		usage(`"prompt_tokens":16777216,"completion_tokens":16777216,"prompt_tokens_details":{"cached_tokens":0}`): 0,
	} {
		s := testserver.NewRaw(t, respondOnce(response))
		o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}}))
		if class := classOf(o); class != want {
			t.Errorf("%.300q: %v, want %v", response, o.Err, want)
		}
	}
}
