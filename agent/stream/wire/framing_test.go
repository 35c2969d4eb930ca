package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// bodyOf splits wire into pieces by cuts, repeated, and returns the body in wire, what follows it, and whether the body
// was whole.
func bodyOf(f *framing, wire []byte, cuts []byte) (body, rest []byte, whole bool, err error) {
	for i := 0; len(wire) > 0; i++ {
		n := 1
		if len(cuts) > 0 {
			n = min(1+int(cuts[i%len(cuts)]), len(wire))
		}
		p := wire[:n]
		for len(p) > 0 && !f.whole {
			var data []byte
			if data, p, err = f.next(p); err != nil {
				return body, nil, false, err
			}
			body = append(body, data...)
		}
		if f.whole {
			return body, append(bytes.Clone(p), wire[n:]...), true, nil
		}
		wire = wire[n:]
	}
	return body, nil, f.whole, nil
}

// A chunked body and its end are found however the body is encoded and split.
func TestChunkedBody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire, want []byte
		for range rapid.IntRange(0, 6).Draw(t, "chunks") {
			data := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "data")
			size := rapid.SampledFrom([]string{"%x\r\n", "%X\r\n", "0%x;a=0f\r\n", "%x \r\n"}).Draw(t, "size")
			wire = append(append(fmt.Appendf(wire, size, len(data)), data...), "\r\n"...)
			want = append(want, data...)
		}
		wire = append(wire, rapid.SampledFrom([]string{"0\r\n\r\n", "000\r\nA: b\r\nC: d\r\n\r\n",
			"0;x\r\n\r\n"}).Draw(t, "last")...)
		const behind = "5\r\nabcde\r\n"
		var f framing
		f.reset(true, -1)
		got, rest, whole, err := bodyOf(&f, append(wire, behind...), rapid.SliceOf(rapid.Byte()).Draw(t, "cuts"))
		if err != nil || !whole || !bytes.Equal(got, want) || string(rest) != behind {
			t.Fatalf("%v, whole: %v, got %q, want %q, rest %q", err, whole, got, want, rest)
		}
	})
}

func TestMalformedChunks(t *testing.T) {
	for _, wire := range []string{
		"\r\n", "g\r\n", "-1\r\n", " 1\r\n", "1\n", "1\rx", "1\r\nab", "1\r\na\n", "1\r\na\rx", ";a\r\n", "0\r\n\n",
		"0\r\nA\n", "0\r\n\rx", "0\r\nA\rx",
		"8000000000000000\r\n", "00000000000000001\r\n", "1;" + strings.Repeat("x", longestLine) + "\r\n",
		"0\r\n" + strings.Repeat("A: b\r\n", longestLine/2),
	} {
		var f framing
		f.reset(true, -1)
		if body, _, _, err := bodyOf(&f, []byte(wire), nil); !errors.Is(err, errChunks) {
			t.Errorf("%.30q: %v, body %q", wire, err, body)
		}
	}
}

func TestBodyThatIsNotChunked(t *testing.T) {
	for _, tt := range []struct {
		length           int64
		wire, body, rest string
		whole            bool
	}{
		{4, "bodyrest", "body", "rest", true},
		{4, "bod", "bod", "", false},
		{0, "rest", "", "rest", true},
		{-1, "all of it", "all of it", "", false},
	} {
		var f framing
		f.reset(false, tt.length)
		body, rest, whole, err := bodyOf(&f, []byte(tt.wire), nil)
		if string(body) != tt.body || string(rest) != tt.rest || whole != tt.whole || err != nil {
			t.Errorf("%d, %q: body %q, rest %q, whole: %v, %v", tt.length, tt.wire, body, rest, whole, err)
		}
	}
}

// Chunked bodies are decoded as by the standard library, and so is the part before a fault.
func FuzzChunks(f *testing.F) {
	for _, seed := range []string{"3\r\nabc\r\n0\r\n\r\n", "3;x=y\r\nabc\r\nA \r\n0123456789\r\n0\r\nT: v\r\n\r\n",
		"3\r\nab", "x", "0\r\n", "1\r\na0\r\n\r\n"} {
		f.Add([]byte(seed), []byte{0})
		f.Add([]byte(seed), []byte{2, 0, 250})
	}
	f.Fuzz(func(t *testing.T, wire, cuts []byte) {
		var ours framing
		ours.reset(true, -1)
		got, _, _, err := bodyOf(&ours, wire, cuts)
		reader := bytes.NewReader(wire)
		want, failed := io.ReadAll(httputil.NewChunkedReader(reader))
		switch {
		case failed == nil && (err != nil && ours.place < trailerBegin ||
			!bytes.Equal(got, want)): // NewChunkedReader does not parse trailers
			t.Fatalf("%v, got %q, want %q", err, got, want)
		case !bytes.HasPrefix(got, want) && !bytes.HasPrefix(want, got):
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
