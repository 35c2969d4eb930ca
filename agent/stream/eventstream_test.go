package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/spate-load/spate/api"
)

// checkMessages compares what a binary stream is divided into, cut at a byte, with what AWS's own library reads.
func checkMessages(t *testing.T, stream []byte, cut int) {
	t.Helper()
	e := new(eventReader)
	e.Reset(api.EventStream)
	decoder, left := eventstream.NewDecoder(), bytes.NewReader(stream)
	for _, part := range [][]byte{stream[:cut], stream[cut:]} {
		e.Attach(part)
		for data, ok := e.Next(); ok; data, ok = e.Next() {
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
					h.Name == ":event-type" && string(e.Name) != string(name) {
					t.Fatalf("%q: event %q, want %q", stream, e.Name, name)
				}
			}
		}
		e.Detach()
	}
	e.Last()
	if errors.Is(e.Err, errHeaders) {
		return // the library takes headers that end within one
	}
	whole := left.Len() == 0
	_, err := decoder.Decode(left, nil)
	if whole != (e.Err == nil) || err == nil {
		t.Fatalf("%q: %v, the library: %v", stream, e.Err, err)
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
