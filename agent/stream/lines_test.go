package stream

import (
	"slices"
	"testing"

	"github.com/spate-load/spate/api"
)

// Each line of a stream of JSON lines is an event, wherever its bytes are cut, and so is the last one without an end.
func TestJSONLines(t *testing.T) {
	const stream = "\ufeff{\"a\":1}\n\r\n {\"b\":\n2}\r\ndata: x\n\n{\"c\":3}"
	want := []string{`{"a":1}`, ` {"b":`, "2}", "data: x", `{"c":3}`}
	for size := 1; size <= len(stream); size++ {
		var r eventReader
		r.Reset(api.JSONLines)
		var got []string
		for piece := range slices.Chunk([]byte(stream), size) {
			if event, ok := r.SingleEvent(piece); ok {
				got = append(got, string(event))
				continue
			}
			r.Attach(piece)
			for event, ok := r.Next(); ok; event, ok = r.Next() {
				got = append(got, string(event))
			}
			r.Detach()
		}
		if event, ok := r.Last(); ok {
			got = append(got, string(event))
		}
		if !slices.Equal(got, want) || r.Err != nil {
			t.Fatalf("pieces of %d: %q, %v, want %q", size, got, r.Err, want)
		}
	}
}
