package stream

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/spate-load/spate/api"
)

// checkMessages compares what a binary stream is divided into, cut at a byte, with what AWS's own library reads.
func checkMessages(t *testing.T, stream []byte, cut int) {
	t.Helper()
	e := new(events)
	e.reset(api.EventStream)
	decoder, left := eventstream.NewDecoder(), bytes.NewReader(stream)
	for _, part := range [][]byte{stream[:cut], stream[cut:]} {
		e.attach(part)
		for data, ok := e.next(); ok; data, ok = e.next() {
			m, err := decoder.Decode(left, nil)
			if err != nil {
				t.Fatalf("%q: message %q is not one: %v", stream, data, err)
			}
			want := m.Payload
			if text, isText := m.Headers.Get(":error-message").(eventstream.StringValue); isText && len(want) == 0 {
				want = []byte(text)
			}
			if !bytes.Equal(data, want) {
				t.Fatalf("%q: %q, want %q", stream, data, want)
			}
			for _, h := range m.Headers {
				if name, isText := h.Value.(eventstream.StringValue); isText && len(m.Headers) == 1 &&
					h.Name == ":event-type" && string(e.event) != string(name) {
					t.Fatalf("%q: event %q, want %q", stream, e.event, name)
				}
			}
		}
		e.detach()
	}
	e.last()
	whole := left.Len() == 0
	_, err := decoder.Decode(left, nil)
	if whole != (e.err == nil) || err == nil {
		t.Fatalf("%q: %v, the library: %v", stream, e.err, err)
	}
}

// eventMessages are messages with headers of all types, an error, and an empty message.
func eventMessages(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	encoder := eventstream.NewEncoder()
	for _, m := range []eventstream.Message{
		{Payload: []byte("{}"), Headers: eventstream.Headers{
			{Name: ":event-type", Value: eventstream.StringValue("messageStart")},
			{Name: "a", Value: eventstream.BoolValue(true)}, {Name: "b", Value: eventstream.BoolValue(false)},
			{Name: "c", Value: eventstream.Int8Value(1)}, {Name: "d", Value: eventstream.Int16Value(1)},
			{Name: "e", Value: eventstream.Int32Value(1)}, {Name: "f", Value: eventstream.Int64Value(1)},
			{Name: "g", Value: eventstream.BytesValue("x")}, {Name: "h", Value: eventstream.UUIDValue{1}},
		}},
		{Headers: eventstream.Headers{{Name: ":message-type", Value: eventstream.StringValue("error")},
			{Name: ":error-code", Value: eventstream.StringValue("InternalError")},
			{Name: ":error-message", Value: eventstream.StringValue("it broke")}}},
		{},
	} {
		if err := encoder.Encode(&b, m); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// Any stream, cut anywhere, with any byte changed, is read as AWS's library reads it.
func TestMessagesOfABinaryStream(t *testing.T) {
	stream := eventMessages(t)
	for i := range len(stream) + 1 {
		checkMessages(t, stream, i)
		checkMessages(t, stream[:i], i/2)
	}
	for i := range stream {
		broken := bytes.Clone(stream)
		broken[i] ^= 0x10
		checkMessages(t, broken, i)
	}
}

// seal sets the checksums of a message.
func seal(m []byte) []byte {
	binary.BigEndian.PutUint32(m[8:], crc32.ChecksumIEEE(m[:8]))
	binary.BigEndian.PutUint32(m[len(m)-checksumSize:], crc32.ChecksumIEEE(m[:len(m)-checksumSize]))
	return m
}

func FuzzEventStream(f *testing.F) {
	f.Add(eventMessages(f), uint16(9))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"), uint16(3))
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		if len(stream) >= emptyMessage && int(binary.BigEndian.Uint32(stream)) == len(stream) {
			stream = seal(bytes.Clone(stream)) // else checksums hide what follows
		}
		checkMessages(t, stream, min(int(cut), len(stream)))
	})
}

// An error of the stream itself names its code.
func TestErrorMessages(t *testing.T) {
	s := newRawServer(t, respondOnce("HTTP/1.1 200 OK\r\nContent-Type: application/vnd.amazon.eventstream\r\n\r\n"+
		string(eventMessages(t))))
	o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}, API: "bedrock", Model: "m"}))
	if o.Err == nil || o.Err.Message != "InternalError: it broke" {
		t.Errorf("%v", o.Err)
	}
}

// A request with keys is signed, and its keys stay secret; one with a token carries the token.
func TestSignedRequests(t *testing.T) {
	var head http.Header
	p := newPeer(t, "127.0.0.1:0", true, false, nil, func(w http.ResponseWriter, r *http.Request) {
		head = r.Header.Clone()
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "no access for AKIDEXAMPLE with wJalrXUtnFEMI")
	})
	for key, want := range map[string]string{
		"AKIDEXAMPLE:wJalrXUtnFEMI": "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/", "token123": "Bearer token123",
	} {
		o := ask(t, newTestClient(t, Config{Endpoints: []string{p.URL}, API: "bedrock", Model: "m", APIKey: key}))
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
