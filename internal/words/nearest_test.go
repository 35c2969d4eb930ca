package words

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTo(t *testing.T) {
	names := []string{"concurrency", "requests_per_concurrency", "warmup", "rate", "requests"}
	for name, want := range map[string]string{
		"concurency": "concurrency", "Concurrency": "concurrency", "requestsPerConcurrency": "requests_per_concurrency",
		"warm_up": "warmup", "rates": "rate", "qps": "", "": "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"mixture": "mix", "distribution_of_texts": "texts", "te": "", "spec": "speculative_decoding",
	} {
		if got := Nearest(name, []string{"random", "texts", "mix", "a_mix_of_it", "speculative_decoding"}); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got := Nearest("rate", nil); got != "" {
		t.Errorf("of no names, %q", got)
	}
}

// slow is the definition of the edit distance, written out.
func slow(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	replaced := slow(a[1:], b[1:])
	if a[0] != b[0] {
		replaced++
	}
	return min(replaced, slow(a[1:], b)+1, slow(a, b[1:])+1)
}

func TestDistance(t *testing.T) {
	word := rapid.StringMatching(`[abc]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := distance(a, b), slow(a, b); got != want {
			t.Errorf("%q to %q: got %d, want %d", a, b, got, want)
		}
	})
}
