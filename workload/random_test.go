package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// randomContents draws random content of up to 600 tokens, with all of its fields.
var randomContents = rapid.Custom(func(t *rapid.T) *spatev1.RandomContent {
	c := &spatev1.RandomContent{}
	if rapid.Bool().Draw(t, "lengths") {
		c.IslLengths, c.OslLengths = distributions.Draw(t, "isl"), distributions.Draw(t, "osl")
	} else {
		c.Isl, c.Osl = rapid.Uint32Range(1, 300).Draw(t, "isl"), rapid.Uint32Range(1, 1<<24).Draw(t, "osl")
		c.RangeRatio = rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.99}).Draw(t, "ratio")
	}
	if rapid.Bool().Draw(t, "prefix given") {
		c.Prefix = &spatev1.Prefix{
			Length: rapid.Uint32Range(1, 400).Draw(t, "prefix"), Groups: rapid.Uint32Max(20).Draw(t, "groups"),
			Share: rapid.Float64Range(0, 1).Draw(t, "share"),
		}
	}
	return c
})

// TestPrefixes: each request of a group starts with the group's prefix, in every form. Shared is the longest part of it
// that an earlier request carries, as a scan of all earlier requests finds it, whatever the order of calls.
func TestPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Seed: rapid.Uint64().Draw(t, "seed"), Template: rapid.SampledFrom([]uint32{0, 30}).Draw(t,
			"template")}
		p := &spatev1.Prefix{
			Length: rapid.Uint32Range(1, 100).Draw(t, "prefix"), Groups: rapid.Uint32Max(5).Draw(t, "groups"),
			Share: rapid.Float64Range(0.1, 1).Draw(t, "share"),
		}
		c.Workload = withContent(&spatev1.RandomContent{
			IslLengths: uniformOf(rapid.Uint32Range(1, 100).Draw(t, "shortest"), 120), Osl: 1, Prefix: p,
		})
		w, form := newWorkload(t, c).(*random), rapid.SampledFrom([]Form{Text, TokenIDs, Messages}).Draw(t, "form")
		const n = 40
		var want [n]uint32
		longest := make(map[uint64]uint32) // by group, so far
		for i := range want {
			group, carries := w.prefixes.group(uint64(i))
			if !carries {
				continue
			}
			tokens := flat(parsePrompt(t, prompt(t, w, nil, uint64(i), form), form))
			own := min(p.GetLength(), uint32(len(tokens)))
			if prefix := drawn(w.words, form, w.prefixes.content.Sub(group), 0, uint64(own)); alike(prefix,
				tokens) != int(own) {
				t.Fatalf("request %d of group %d begins with %q, want %q", i, group, tokens, prefix)
			}
			want[i] = min(longest[group], own)
			longest[group] = max(longest[group], own)
		}
		for _, i := range rapid.Permutation(indices(n)).Draw(t, "order") {
			if got := specOf(t, w, uint64(i), 0).Shared; got != want[i] {
				t.Fatalf("request %d shares %d tokens, want %d", i, got, want[i])
			}
		}
	})
}

// indices returns 0 to n-1.
func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestPrefixShares: the requested share of requests carries a prefix, groups are equally frequent, and the tokens
// shared are those of the requests except the first of each group. Five standard deviations are allowed; the seed is
// fixed.
func TestPrefixShares(t *testing.T) {
	const n, groups, length = 200_000, 50, 64
	for _, share := range []float64{0.01, 0.3, 1} {
		w := newRandomWorkload(t, &spatev1.RandomContent{
			Isl: 100, Osl: 1, Prefix: &spatev1.Prefix{Length: length, Groups: groups, Share: share},
		}, 77).(*random)
		carriers, counts, tokens := 0, make([]int, groups), uint64(0)
		for i := range uint64(n) {
			tokens += uint64(specOf(t, w, i, 0).Shared)
			if group, carries := w.prefixes.group(i); carries {
				counts[group]++
				carriers++
			}
		}
		if far := (float64(carriers) - n*share) / math.Sqrt(n*share*(1-share)+1e-9); math.Abs(far) > 5 {
			t.Errorf("share %v: %d of %d carry a prefix", share, carriers, n)
		}
		if far := chiSquare(counts); math.Abs(far) > 5 {
			t.Errorf("share %v: groups are %.1f standard deviations from uniform", share, far)
		}
		if want := uint64(carriers-groups) * length; tokens != want {
			t.Errorf("share %v: %d tokens are shared, want %d", share, tokens, want)
		}
	}
}

// TestPrefixWalkEnds: once each group has been carried, no request is walked again, and a far index costs no walk.
func TestPrefixWalkEnds(t *testing.T) {
	w := newRandomWorkload(t, &spatev1.RandomContent{
		Isl: 100, Osl: 1, Prefix: &spatev1.Prefix{Length: 10, Groups: 1000},
	}, 1).(*random)
	if got := specOf(t, w, math.MaxUint64, 0).Shared; got != 10 {
		t.Errorf("the last request shares %d tokens, want 10", got)
	}
	if walked := w.prefixes.walked.Load(); walked != math.MaxUint64 {
		t.Errorf("walked to %d", walked)
	}
	// With a prefix longer than most prompts, the walk ends even if some groups are never carried at full length.
	short := newRandomWorkload(t, &spatev1.RandomContent{
		IslLengths: normalOf(5, 90, 0, 0), Osl: 1, Prefix: &spatev1.Prefix{Length: 500, Groups: 100},
	}, 1).(*random)
	if short.prefixes.end != longestWalk {
		t.Errorf("walks %d requests, want %d", short.prefixes.end, longestWalk)
	}
	short.prefixes.end = 10_000
	if got := specOf(t, short, math.MaxUint64, 0).Shared; uint64(got) != short.promptTokens(math.MaxUint64) {
		t.Errorf("the last request shares %d tokens, want 5", got)
	}
}

// TestPrefixesConcurrently calls from many goroutines, for the race detector.
func TestPrefixesConcurrently(t *testing.T) {
	content := &spatev1.RandomContent{IslLengths: uniformOf(10, 100), Osl: 1,
		Prefix: &spatev1.Prefix{Length: 80, Groups: 300}}
	w, alone := newRandomWorkload(t, content, 5), newRandomWorkload(t, content, 5)
	const n, at = 4000, 8
	var want, got [n]uint32
	for i := range want {
		want[i] = specOf(t, alone, uint64(i), 0).Shared
	}
	done := make(chan struct{}, at)
	for k := range at {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := k; i < n; i += at {
				if a, err := w.Spec(uint64(i), 0); err == nil {
					got[i] = a.Shared
				}
			}
		}()
	}
	for range at {
		<-done
	}
	if !slices.Equal(got[:], want[:]) {
		t.Error("asked at once, other tokens are shared than asked one after another")
	}
}

// TestWordsAndTemplate: prompts use a tokenizer's words, and leave room for the template.
func TestWordsAndTemplate(t *testing.T) {
	w := newWorkload(t, Config{
		Workload: withContent(&spatev1.RandomContent{Isl: 10, Osl: 1}), Words: []string{`"`, "<b>", "extraordinarily"},
		Template: 4,
	})
	seen := make(map[string]bool)
	for i := range uint64(50) {
		tokens := flat(parsePrompt(t, prompt(t, w, nil, i, Messages), Messages))
		if len(tokens) != 6 {
			t.Fatalf("%d words, want 6: %q", len(tokens), tokens)
		}
		for _, token := range tokens {
			seen[token] = true
		}
	}
	if len(seen) != 3 || !seen[`"`] || !seen["<b>"] || !seen["extraordinarily"] {
		t.Errorf("words %v", seen)
	}
	if a := specOf(t, w, 0, 0); a.ISL != 10 {
		t.Errorf("ISL %d, want 10", a.ISL)
	}
}

// TestCacheBusting: with the same seed, another run's prompts all have different starts and the same rest. Within a
// run, all starts differ too. A start is 64 bits of tokens.
func TestCacheBusting(t *testing.T) {
	w := func(run string) Workload {
		return newWorkload(t, Config{Seed: 1, Run: run, Workload: &spatev1.Workload{
			CacheBusting: "request", Content: withContent(&spatev1.RandomContent{Isl: 40, Osl: 1}).Content,
		}})
	}
	one, two := w("one"), w("two")
	for form, begin := range map[Form]int{Text: 8, TokenIDs: 5, Messages: 8} {
		seen := make(map[string]bool)
		for i := range uint64(2000) {
			a := flat(parsePrompt(t, prompt(t, one, nil, i, form), form))
			b := flat(parsePrompt(t, prompt(t, two, nil, i, form), form))
			if len(a) != 40 || len(b) != 40 || !slices.Equal(a[begin:], b[begin:]) {
				t.Fatalf("form %d: beyond the start %q is not %q", form, a, b)
			}
			seen[fmt.Sprint(a[:begin])], seen[fmt.Sprint(b[:begin])] = true, true
		}
		if len(seen) != 4000 {
			t.Errorf("form %d: %d of 4000 starts are different", form, len(seen))
		}
	}
}

func TestLongestRequest(t *testing.T) {
	for name, c := range map[string]struct {
		workload *spatev1.Workload
		want     uint32
	}{
		"fixed":  {withContent(&spatev1.RandomContent{Isl: 1000, Osl: 100}), 1100},
		"range":  {withContent(&spatev1.RandomContent{Isl: 1000, Osl: 100, RangeRatio: 0.5}), 1650},
		"normal": {withContent(&spatev1.RandomContent{IslLengths: normalOf(1000, 100, 0, 0), Osl: 100}), 1700},
		"cut off": {withContent(&spatev1.RandomContent{IslLengths: lognormalOf(1000, 900, 0, 2000),
			OslLengths: uniformOf(1, 9)}), 2009},
		"sonnet": {&spatev1.Workload{Content: &spatev1.Workload_Sonnet{Sonnet: &spatev1.SonnetContent{Isl: 500,
			Osl: 150}}}, 650},
		"sessions": {chat(&spatev1.SessionContent{System: 7, Turns: 3, Isl: 100, OslLengths: uniformOf(5, 10)}),
			337},
		"file":        {&spatev1.Workload{Content: &spatev1.Workload_Jsonl{Jsonl: &spatev1.FileContent{Path: "x"}}}, 0},
		"impossible":  {withContent(&spatev1.RandomContent{Isl: 1}), 0},
		"no sessions": {chat(&spatev1.SessionContent{}), 0},
	} {
		got, known := LongestRequest(c.workload, nil)
		if got != c.want || known != (c.want > 0) {
			t.Errorf("%s: %d, %v, want %d", name, got, known, c.want)
		}
	}
}

// BenchmarkShared asks for requests one after another while groups are still missing.
func BenchmarkShared(b *testing.B) {
	w := newRandomWorkload(b, &spatev1.RandomContent{Isl: 100, Osl: 1, Prefix: &spatev1.Prefix{
		Length: 10, Groups: 1_000_000, Share: 0.001}}, 1)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		specOf(b, w, i, 0)
	}
}

// TestFirstWords: prompts and messages start with words of FirstWords and continue with all words. Their unique starts
// still differ.
func TestFirstWords(t *testing.T) {
	words, first := []string{"b", "c", "d", "e", "f", "g", "h"}, []string{"one", "two", "three"}
	starts := map[string]bool{}
	for name, w := range map[string]*spatev1.Workload{
		"random": withContent(&spatev1.RandomContent{IslLengths: uniformOf(5, 30), Osl: 1}),
		"prefix": withContent(&spatev1.RandomContent{Isl: 20, Osl: 1, Prefix: &spatev1.Prefix{Length: 8, Groups: 3}}),
		"sessions": chat(&spatev1.SessionContent{Turns: 3, Isl: 9, Osl: 4, System: 7,
			Play: &spatev1.SessionPlay{History: "planned"}}),
		"busted": {Content: withContent(&spatev1.RandomContent{Isl: 30, Osl: 1}).Content, CacheBusting: "request"},
	} {
		made := newWorkload(t, Config{Workload: w, Seed: 3, Words: words, FirstWords: first, Template: 2,
			Form: Messages, Run: "r"})
		for i := range uint64(100) {
			for turn := range specOf(t, made, i, 0).Turns {
				body, err := made.AppendPrompt(nil, Request{Index: i, Turn: turn, Form: Messages})
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range parsePrompt(t, body, Messages) {
					starts[m.tokens[0]] = true
					if !slices.Contains(first, m.tokens[0]) ||
						slices.ContainsFunc(m.tokens[1:], func(w string) bool { return !slices.Contains(words, w) }) {
						t.Fatalf("%s: %v", name, m.tokens)
					}
				}
			}
		}
	}
	if len(starts) != len(first) {
		t.Errorf("messages start with %v", starts)
	}
}

// TestShortPrompts: no prompt is asked to be shorter than its template plus one token.
func TestShortPrompts(t *testing.T) {
	made := newWorkload(t, Config{Workload: withContent(&spatev1.RandomContent{IslLengths: uniformOf(1, 20), Osl: 1}),
		Template: 8})
	for i := range uint64(100) {
		n := len(parsePrompt(t, prompt(t, made, nil, i, Text), Text)[0].tokens)
		if a := specOf(t, made, i, 0); int(a.ISL) != n+8 || a.ISL < 9 || a.ISL > 20 {
			t.Fatalf("%+v for %d tokens", a, n)
		}
	}
}

// textsIn returns the texts of a request, each as its tokens.
func textsIn(t *testing.T, w Workload, index uint64, form Form) (texts [][]string) {
	t.Helper()
	body, err := w.AppendPrompt(nil, Request{Index: index, Form: form})
	if err != nil {
		t.Fatal(err)
	}
	if form == TokenIDs {
		var lists [][]json.Number
		if err := json.Unmarshal(body, &lists); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		for _, list := range lists {
			texts = append(texts, strings.Fields(strings.Trim(fmt.Sprint(list), "[]")))
		}
		return texts
	}
	var list []string
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, text := range list {
		texts = append(texts, strings.Fields(text))
	}
	return texts
}

// TestTexts: a request has as many texts as the plan says, each of a length of its own and of other tokens. Spec has
// the number, and the tokens of all of them.
func TestTexts(t *testing.T) {
	plan := withContent(&spatev1.RandomContent{IslLengths: uniformOf(20, 40), Osl: 1, Texts: 9})
	for _, form := range []Form{Text, TokenIDs} {
		const template = 2
		w := newWorkload(t, Config{Workload: plan, Seed: 5, Template: template})
		lengths, seen := make(map[int]bool), make(map[string]bool)
		for i := range uint64(60) {
			texts := textsIn(t, w, i, form)
			tokens := 0
			for _, text := range texts {
				tokens += len(text) + template
				lengths[len(text)+template] = true
				start := strings.Join(text[:8], " ")
				if seen[start] {
					t.Errorf("request %d has a text that starts as another: %s", i, start)
				}
				seen[start] = true
			}
			if s, err := w.Spec(i, 0); err != nil || len(texts) != 9 || s.Texts != 9 || int(s.ISL) != tokens {
				t.Errorf("request %d has %d texts of %d tokens, Spec says %+v (%v)", i, len(texts), tokens, s, err)
			}
		}
		if len(lengths) != 21 {
			t.Errorf("lengths %v: want 21 different ones", lengths)
		}
	}
	one := newWorkload(t, Config{Workload: withContent(&spatev1.RandomContent{Isl: 20, Osl: 1})})
	if s, err := one.Spec(0, 0); err != nil || s.Texts != 0 {
		t.Errorf("a prompt is %d texts (%v), want none", s.Texts, err)
	}
}

// TestUniqueTexts: with cache busting, the start of each text differs from run to run; all else is the same.
func TestUniqueTexts(t *testing.T) {
	plan := withContent(&spatev1.RandomContent{Isl: 30, Osl: 1, Texts: 4})
	plan.CacheBusting = "request"
	var runs [2][][]string
	for i, run := range []string{"a", "b"} {
		runs[i] = textsIn(t, newWorkload(t, Config{Workload: plan, Run: run}), 7, Text)
	}
	for k, text := range runs[0] {
		other := runs[1][k]
		if len(text) != 30 || strings.Join(text[:4], " ") == strings.Join(other[:4], " ") || text[29] != other[29] {
			t.Errorf("text %d: %q and %q", k, text, other)
		}
	}
}
