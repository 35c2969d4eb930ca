package wire

import (
	"bytes"
	"io"
	"net/http/httputil"
	"testing"

	"pgregory.net/rapid"
)

func TestChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire, want []byte
		for _, n := range rapid.SliceOf(rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 100_000))).Draw(t,
			"lengths") {
			data := bytes.Repeat([]byte{byte(n)}, n)
			want = append(want, data...)
			wire = append(wire, chunk(append(make([]byte, ChunkHead), data...))...)
		}
		wire = append(wire, "0\r\n\r\n"...)
		got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
}
