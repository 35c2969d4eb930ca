package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// Each object of one write has its own time: an object before the last the time at which the next one started, the last
// one the time at which it was sealed.
func TestSeal(t *testing.T) {
	p := &FrameWriter{Request: &Request{Stream: true}, shape: &config.Config{}}
	p.shape.Truth.Stamp = true
	from := clock.Now()
	b := make([]byte, wire.ChunkHead, 512)
	for range 3 {
		b = append(p.event(b, ""), `{"a":1`...)
		b = p.close(b)
	}
	made := clock.Now()
	b = p.Seal(b)
	again := p.Seal(b) // for a write without an object, it changes only the time
	if string(again) != string(b) {
		t.Errorf("sealed again: %q", again)
	}
	frames := strings.Split(strings.TrimSuffix(string(b[wire.ChunkHead:]), "\n\n"), "\n\n")
	if len(frames) != 3 {
		t.Fatalf("%q", b)
	}
	last := from
	for i, f := range frames {
		var object struct {
			A    int           `json:"a"`
			Sent clock.Instant `json:"sent_ns"`
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(f, "data: ")), &object); err != nil {
			t.Fatal(err)
		}
		if object.A != 1 || object.Sent < last || (object.Sent >= made) != (i == 2) {
			t.Errorf("object %d is %+v; the one before is of %d, all were made at %d", i, object, last, made)
		}
		last = object.Sent
	}
}

func TestSealWithoutStamps(t *testing.T) {
	p := &FrameWriter{Request: &Request{Stream: true}, shape: &config.Config{}}
	b := p.close(append(p.event(nil, ""), `{"a":1`...))
	if sealed := p.Seal(b); string(sealed) != "data: {\"a\":1}\n\n" || p.Sent == 0 {
		t.Errorf("%q at %d", sealed, p.Sent)
	}
}
