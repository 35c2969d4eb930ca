package histogram

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"
	"maps"
	"math"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

// peer returns HdrHistogram's own histogram of the same values.
func peer(l Layout, values []int64) *hdr.Histogram {
	g := geometries[l]
	h := hdr.New(g.lowest, g.highest, digits)
	for _, v := range values {
		if err := h.RecordValue(int64(g.clamp(v))); err != nil {
			panic(err)
		}
	}
	return h
}

// TestPeerReadsOurs checks that HdrHistogram decodes our bytes to the same counts and percentiles.
func TestPeerReadsOurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts.Draw(t, "layout")
		h := of(l, values(l).Draw(t, "values"))
		line, err := h.AppendCompressedBase64([]byte("x"))
		if err != nil || line[0] != 'x' {
			t.Fatalf("encoded %q: %v", line, err)
		}
		theirs, err := hdr.Decode(line[1:])
		if err != nil {
			t.Fatal(err)
		}
		if uint64(theirs.TotalCount()) != h.Count() {
			t.Fatalf("they count %d, we %d", theirs.TotalCount(), h.Count())
		}
		if got, want := counts(theirs), h.counts(); !maps.Equal(got, want) {
			t.Fatalf("they count %v, we %v", got, want)
		}
		// Whole ranks only: between ranks the peer rounds to the nearest rank, but HdrHistogram's original
		// implementation takes the next rank.
		for i := range h.Count() {
			p := 100 * float64(i+1) / float64(h.Count())
			if got, want := h.Percentile(p), theirs.ValueAtPercentile(p); got != min(want, h.Max()) {
				t.Fatalf("percentile %v: they say %d, we %d", p, want, got)
			}
		}
	})
}

// counts returns the counts of the bins that hold values, by their smallest value.
func counts(h *hdr.Histogram) map[int64]int64 {
	all := make(map[int64]int64)
	for _, bar := range h.Distribution() {
		if bar.Count != 0 {
			all[bar.From] = bar.Count
		}
	}
	return all
}

// counts returns the counts of the bins of our histogram that hold values, by their smallest value.
func (h *Histogram) counts() map[int64]int64 {
	all := make(map[int64]int64)
	for i, n := range h.bins {
		low, _ := h.geometry.span(i)
		all[int64(low)] = int64(n)
	}
	return all
}

// TestBytesAreThePeers checks both ways: our encoding is HdrHistogram's to the byte, and its bytes decode to our
// histogram.
func TestBytesAreThePeers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts.Draw(t, "layout")
		vs := values(l).Draw(t, "values")
		h := of(l, vs)
		theirs := inflate(t, peer(l, vs))
		if ours := h.AppendHDR(nil); !bytes.Equal(ours, theirs) {
			t.Fatalf("we encode\n%x, they\n%x", ours, theirs)
		}
		d := h.Proto(metricOf(l))
		d.Histogram = theirs
		back, err := fromProto(d)
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, "decoded", back, h)
	})
}

// inflate returns the uncompressed V2 encoding of a peer's histogram.
func inflate(t rapid.TB, h *hdr.Histogram) []byte {
	line, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := base64.StdEncoding.DecodeString(string(line))
	if err != nil {
		t.Fatal(err)
	}
	r, err := zlib.NewReader(bytes.NewReader(packed[8:]))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestZigZagOfNineBytes checks the only number format that we read but never write.
func TestZigZagOfNineBytes(t *testing.T) {
	for _, c := range []struct {
		bytes []byte
		want  int64
		size  int
	}{
		{[]byte{0x00}, 0, 1},
		{[]byte{0x01}, -1, 1},
		{[]byte{0xfe, 0x01}, 127, 2},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, math.MinInt64, 9},
		{[]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, math.MaxInt64, 9},
		{[]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, 0, 0},
		{[]byte{0x80}, 0, 0},
		{nil, 0, 0},
	} {
		if v, size := zigZag(c.bytes); v != c.want || size != c.size {
			t.Errorf("%x is %d in %d bytes, want %d in %d", c.bytes, v, size, c.want, c.size)
		}
	}
}
