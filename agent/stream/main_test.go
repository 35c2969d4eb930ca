package stream

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/agent/stream/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newTestClient returns a client of the chat API, which is closed when the test ends.
func newTestClient(t testing.TB, config Config) *Client {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ask sends one request and returns its observation.
func ask(t testing.TB, c *Client) *Observation {
	t.Helper()
	var o Observation
	c.Do(t.Context(), Request{ID: "r1", Body: body(c)}, &o)
	return &o
}

// body returns some request body.
func body(c *Client) []byte {
	return c.AppendBody(nil, 8, func(dst []byte) []byte { return append(dst, `"hello"`...) })
}

// checkError returns the *Error of a check. Nil: the check succeeded.
func checkError(t testing.TB, c *Client) *Error {
	t.Helper()
	err := c.Check(t.Context(), 0)
	e, ok := errors.AsType[*Error](err)
	if ok != (err != nil) {
		t.Fatalf("the check's error is no *Error: %v", err)
	}
	return e
}

// Short names of what the tests here use all the time.
const (
	chunkedHead = testserver.ChunkedHead
	roleFrame   = testserver.RoleFrame
	finishFrame = testserver.FinishFrame
	usageFrame  = testserver.UsageFrame
	doneFrame   = testserver.DoneFrame
	lastChunk   = testserver.LastChunk
)

var (
	tokenFrame  = testserver.TokenFrame
	chunk       = testserver.Chunk
	answer      = testserver.Answer
	respondOnce = testserver.RespondOnce
	reply       = testserver.Reply
	later       = testserver.Later
)

// hold is how long the program does not read; a correct time is off by far less.
const hold = 80 * time.Millisecond
