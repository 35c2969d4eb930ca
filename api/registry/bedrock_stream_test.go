package registry_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

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

// A request with keys is signed, and its keys stay secret; one with a token carries the token.
func TestSignedRequests(t *testing.T) {
	heads := make(chan http.Header, 2) // one for each request
	p := testserver.NewPeer(t, "127.0.0.1:0", true, false, nil, func(w http.ResponseWriter, r *http.Request) {
		heads <- r.Header.Clone()
		body, _ := io.ReadAll(r.Body)
		if want := signedByAWS(t, r, body); r.Header.Get("X-Amz-Date") != "" && r.Header.Get("Authorization") != want {
			t.Errorf("what came is signed %s, AWS's own signer says %s", r.Header.Get("Authorization"), want)
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no access for AKIDEXAMPLE with wJalrXUtnFEMI")
	})
	for key, want := range map[string]string{
		"AKIDEXAMPLE:wJalrXUtnFEMI": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/", "token123": "Bearer token123",
	} {
		o := streamtest.Ask(
			t,
			streamtest.NewClient(t, stream.Config{Endpoints: []string{p.URL}, API: "bedrock", Model: "a.b-v1:0", APIKey: key}),
		)
		head := <-heads
		if !bytes.HasPrefix([]byte(head.Get("Authorization")), []byte(want)) {
			t.Errorf("%s: Authorization: %s", key, head.Get("Authorization"))
		}
		if signed := head.Get("X-Amz-Date") != ""; signed != (key[0] == 'A') {
			t.Errorf("%s: X-Amz-Date: %s", key, head.Get("X-Amz-Date"))
		}
		if key[0] == 'A' && (o.Err == nil || bytes.Contains([]byte(o.Err.Message), []byte("wJalrXUtnFEMI"))) {
			t.Errorf("the secret is in a message: %v", o.Err)
		}
	}
}

// signedByAWS returns the signature that AWS's SDK gives a request as it came.
func signedByAWS(t *testing.T, r *http.Request, body []byte) string {
	at, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	again, err := http.NewRequestWithContext(t.Context(), r.Method, "http://"+r.Host+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
	}
	again.Header = http.Header{"Accept": r.Header["Accept"], "Content-Type": r.Header["Content-Type"]} // are signed, too
	digest := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIDEXAMPLE",
		SecretAccessKey: "wJalrXUtnFEMI"}, again, hex.EncodeToString(digest[:]), "bedrock", "us-east-1", at); err != nil {
		t.Error(err)
	}
	return again.Header.Get("Authorization")
}
