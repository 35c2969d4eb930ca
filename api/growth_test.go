package api

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGrowth checks texts that hold the whole answer so far, for any pieces.
func TestGrowth(t *testing.T) {
	piece := rapid.SampledFrom([]string{"", "a", "b", "ab", `\n`, "世"})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(piece).Draw(t, "pieces")
		var g Growth
		for i, p := range pieces {
			if got := g.Added([]byte(strings.Join(pieces[:i+1], "")), SpanSoFar); string(got) != p {
				t.Fatalf("%q: piece %d is %q", pieces, i, got)
			}
		}
	})
}

// TestGrowthOfPieces checks servers that send pieces: once a text does not start with the previous text, all texts are
// taken as they are.
func TestGrowthOfPieces(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b", "c", "ab", "世"})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(piece).Draw(t, "pieces")
		s := rapid.SampledFrom([]Span{SpanSoFar, SpanUnsure}).Draw(t, "span")
		var g Growth
		before, apart := "", false
		for _, p := range pieces {
			got := string(g.Added([]byte(p), s))
			if apart = apart || !strings.HasPrefix(p, before); apart && got != p {
				t.Fatalf("%q: %q came to %q", pieces, p, got)
			}
			before = p
		}
	})
}

func TestGrowthUnsure(t *testing.T) {
	for _, tt := range []struct {
		span         Span
		texts, wants []string
	}{
		{SpanUnsure, []string{"a", "a", "a"}, []string{"a", "a", "a"}},                          // usually pieces
		{SpanUnsure, []string{"a", "ab", "ab", "abc"}, []string{"a", "b", "", "c"}},             // all so far
		{SpanSoFar, []string{"a", "a", "ab"}, []string{"a", "", "b"}},                           // usually all so far
		{SpanSoFar, []string{" one", " two", " two", ""}, []string{" one", " two", " two", ""}}, // pieces
	} {
		var g Growth
		for i, text := range tt.texts {
			if got := string(g.Added([]byte(text), tt.span)); got != tt.wants[i] {
				t.Errorf("%q: text %d adds %q, want %q", tt.texts, i, got, tt.wants[i])
			}
		}
	}
}

// BenchmarkGrowth measures an answer of 1,000 tokens in which each frame holds the whole text so far. Bytes/s must not
// fall as answers grow.
func BenchmarkGrowth(b *testing.B) {
	whole := []byte(strings.Repeat("word ", 1000))
	b.SetBytes(int64(len(whole) * 1001 / 2))
	b.ReportAllocs()
	for b.Loop() {
		var g Growth
		for i := 5; i <= len(whole); i += 5 {
			if len(g.Added(whole[:i], SpanSoFar)) != 5 {
				b.Fatal("a piece is lost")
			}
		}
	}
}
