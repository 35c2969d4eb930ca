package stream

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
		var g growth
		for i, p := range pieces {
			if got := g.added([]byte(strings.Join(pieces[:i+1], "")), spanSoFar); string(got) != p {
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
		s := rapid.SampledFrom([]span{spanSoFar, spanUnsure}).Draw(t, "span")
		var g growth
		before, apart := "", false
		for _, p := range pieces {
			got := string(g.added([]byte(p), s))
			if apart = apart || !strings.HasPrefix(p, before); apart && got != p {
				t.Fatalf("%q: %q came to %q", pieces, p, got)
			}
			before = p
		}
	})
}

func TestGrowthUnsure(t *testing.T) {
	for _, tt := range []struct {
		span         span
		texts, wants []string
	}{
		{spanUnsure, []string{"a", "a", "a"}, []string{"a", "a", "a"}},                          // usually pieces
		{spanUnsure, []string{"a", "ab", "ab", "abc"}, []string{"a", "b", "", "c"}},             // all so far
		{spanSoFar, []string{"a", "a", "ab"}, []string{"a", "", "b"}},                           // usually all so far
		{spanSoFar, []string{" one", " two", " two", ""}, []string{" one", " two", " two", ""}}, // pieces
	} {
		var g growth
		for i, text := range tt.texts {
			if got := string(g.added([]byte(text), tt.span)); got != tt.wants[i] {
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
		var g growth
		for i := 5; i <= len(whole); i += 5 {
			if len(g.added(whole[:i], spanSoFar)) != 5 {
				b.Fatal("a piece is lost")
			}
		}
	}
}

// BenchmarkDialects measures the parse of one token's frame in each API.
func BenchmarkDialects(b *testing.B) {
	for api, f := range forms {
		b.Run(api, func(b *testing.B) {
			d, err := dialectOf(api, "")
			if err != nil {
				b.Fatal(err)
			}
			data := []byte(f.token(" word", nil).data)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			var fr frame
			for b.Loop() {
				if d.frame(data, &fr) != nil || !fr.token {
					b.Fatal("no token")
				}
			}
		})
	}
}
