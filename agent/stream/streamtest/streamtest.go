// Package streamtest has a client, and answers of servers to it, for tests of the packages below and above it. Only
// tests import it.
package streamtest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/socket"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Hold is how long a program does not read in tests of times. A correct time is off by far less.
const Hold = 80 * time.Millisecond

// NewClient returns a client of the chat API unless the config has another one. The client is closed when the test
// ends.
func NewClient(t testing.TB, config stream.Config) *stream.Client {
	t.Helper()
	c, err := stream.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Ask sends one request and returns its observation.
func Ask(t testing.TB, c *stream.Client) *stream.Observation {
	t.Helper()
	var o stream.Observation
	c.Do(t.Context(), stream.Request{ID: "r1", Body: Body(c)}, &o)
	return &o
}

// Body returns some request body.
func Body(c *stream.Client) []byte {
	return c.AppendBody(nil, 8, func(dst []byte) []byte { return append(dst, `"hello"`...) })
}

// CheckError returns the *stream.Error of a check. Nil: the check succeeded.
func CheckError(t testing.TB, c *stream.Client) *stream.Error {
	t.Helper()
	err := c.Check(t.Context(), 0)
	e, ok := errors.AsType[*stream.Error](err)
	if ok != (err != nil) {
		t.Fatalf("the check's error is no *Error: %v", err)
	}
	return e
}

// CheckRefusal checks for an error of a class with a text, or for no error if the text is empty.
func CheckRefusal(t *testing.T, o *stream.Observation, class spatev1.ErrorClass, text string) {
	t.Helper()
	switch {
	case text == "":
		if o.Err != nil {
			t.Error(o.Err)
		}
	case o.Err == nil || o.Err.Class != class || !strings.Contains(o.Err.Message, text):
		t.Errorf("%+v, want %v with %q", o.Err, class, text)
	default:
		t.Log(o.Err)
	}
}

// NeedPackets skips a test where the kernel does not allow this program the times of packets.
func NeedPackets(t *testing.T) {
	t.Helper()
	err := socket.CheckPacketTimes()
	if errors.Is(err, os.ErrPermission) {
		t.Skip("NOT TESTED: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
