package registry_test

import (
	"bytes"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/agent/stream/testserver"
)

// An error of the stream itself names its code.
func TestErrorMessages(t *testing.T) {
	var m bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&m, eventstream.Message{Headers: eventstream.Headers{
		{Name: ":message-type", Value: eventstream.StringValue("error")},
		{Name: ":error-code", Value: eventstream.StringValue("InternalError")},
		{Name: ":error-message", Value: eventstream.StringValue("it broke")}}}); err != nil {
		t.Fatal(err)
	}
	s := testserver.NewRaw(
		t,
		testserver.RespondOnce("HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\n\r\n"+
			m.String()),
	)
	o := streamtest.Ask(
		t,
		streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}, API: "bedrock", Model: "m"}),
	)
	if o.Err == nil || o.Err.Message != "InternalError: it broke" {
		t.Errorf("%v", o.Err)
	}
}
