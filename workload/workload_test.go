package workload

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// withContent returns a workload of random content.
func withContent(c *spatev1.RandomContent) *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Random{Random: c}}
}

// newRandomWorkload returns a workload of valid content.
func newRandomWorkload(t rapid.TB, c *spatev1.RandomContent, seed uint64) Workload {
	t.Helper()
	return newWorkload(t, Config{Workload: withContent(c), Seed: seed})
}

// newWorkload returns a workload of a valid configuration.
func newWorkload(t rapid.TB, c Config) Workload {
	t.Helper()
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// prompt appends a valid prompt.
func prompt(t rapid.TB, w Workload, dst []byte, index uint64, form Form) []byte {
	t.Helper()
	return promptOf(t, w, dst, Request{Index: index, Form: form})
}

// promptOf appends a valid prompt.
func promptOf(t rapid.TB, w Workload, dst []byte, r Request) []byte {
	t.Helper()
	dst, err := w.AppendPrompt(dst, r)
	if err != nil {
		t.Fatal(err)
	}
	return dst
}

// specOf returns what a valid request asks for.
func specOf(t rapid.TB, w Workload, index uint64, turn int) Spec {
	t.Helper()
	a, err := w.Spec(index, turn)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// contents draws workloads of every kind that needs no file, with prompts of up to a few hundred tokens per turn.
var contents = rapid.Custom(func(t *rapid.T) *spatev1.Workload {
	w := &spatev1.Workload{CacheBusting: rapid.SampledFrom([]string{"", "none", "request"}).Draw(t, "cache busting")}
	if rapid.Bool().Draw(t, "sessions") {
		w.Content = &spatev1.Workload_Sessions{Sessions: sessionContents.Draw(t, "content")}
		return w
	}
	c := randomContents.Draw(t, "content")
	if w.GetCacheBusting() == "request" {
		c.Prefix = nil
	}
	w.Content = &spatev1.Workload_Random{Random: c}
	return w
})

// TestPrompts: for any workload and form, a prompt is valid JSON with the requested number of tokens, all of them
// allowed words or ids. It depends only on seed, run and index, and differs from the prompt of the next request.
func TestPrompts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Workload: contents.Draw(t, "workload"), Seed: rapid.Uint64().Draw(t, "seed"), Run: "r1",
			Template: rapid.SampledFrom([]uint32{0, 0, 1, 20, 500}).Draw(t, "template"),
		}
		w, again := newWorkload(t, c), newWorkload(t, c)
		index := rapid.Uint64Max(50_000).Draw(t, "index")
		first := specOf(t, w, index, 0)
		turn := rapid.IntRange(0, first.Turns-1).Draw(t, "turn")
		for _, form := range []Form{Text, TokenIDs, Messages} {
			r := Request{Index: index, Turn: turn, Form: form}
			one := promptOf(t, w, []byte("kept"), r)
			promptOf(t, w, nil, Request{Index: index + 1, Form: form})
			two := promptOf(t, again, nil, r)
			if !bytes.Equal(one, append([]byte("kept"), two...)) {
				t.Fatalf("turn %d of %d is once %.80q and once %.80q", turn, index, one, two)
			}
			tokens := flat(parsePrompt(t, two, form))
			checkCount(t, c, specOf(t, w, index, turn), len(tokens))
			checkTokens(t, form, tokens)
		}
		if a, b := specOf(t, w, index, turn), specOf(t, again, index, turn); a != b {
			t.Fatalf("asks for %+v and %+v", a, b)
		}
	})
}

// checkCount checks the number of a prompt's tokens against what the request asks for.
func checkCount(t *rapid.T, c Config, a Spec, tokens int) {
	if a.OSL == 0 || a.Turns == 0 || int(a.Shared) > tokens {
		t.Fatalf("asks for %+v, the prompt has %d tokens", a, tokens)
	}
	if a.ISL == 0 && c.Template > 0 && c.Workload.GetSessions() != nil {
		return // not known
	}
	if want := max(int(a.ISL)-int(c.Template), 1); tokens != want {
		t.Fatalf("%d tokens, want %d for %+v less %d", tokens, want, a, c.Template)
	}
}

// checkTokens checks that words are in the list, and ids in the range. The generator leaves the range at its default or
// sets it to 100,000 to 300,000.
func checkTokens(t *rapid.T, form Form, tokens []string) {
	for _, token := range tokens {
		_, known := placeOf(token)
		if form == TokenIDs {
			id, err := strconv.Atoi(token)
			known = err == nil && (id >= 1000 && id <= 9999 || id >= 100_000 && id <= 300_000)
		}
		if !known {
			t.Fatalf("%q is not a token of form %d", token, form)
		}
	}
}

// ownWords are the words that text prompts are made of.
var ownWords = LexiconWords()

// placeOf returns the index of a word in the sorted list.
func placeOf(text string) (int, bool) { return slices.BinarySearch(ownWords, text) }

// TestKnownPrompts pins prompts and lengths: later versions must be able to repeat a run.
func TestKnownPrompts(t *testing.T) {
	busted := withContent(&spatev1.RandomContent{Isl: 9, Osl: 1})
	busted.CacheBusting = "request"
	for name, c := range map[string]struct {
		workload *spatev1.Workload
		form     Form
		turn     int
		want     string
		spec     Spec
	}{
		"random": {withContent(&spatev1.RandomContent{Isl: 6, Osl: 1}), TokenIDs, 0, `[1404,2839,5166,8429,2952,3497]`,
			Spec{ISL: 6, OSL: 1, Turns: 1}},
		"lengths": {
			withContent(&spatev1.RandomContent{IslLengths: lognormalOf(5, 2, 0, 0), OslLengths: uniformOf(1, 1000)}),
			Text,
			0, `"amount display"`, Spec{ISL: 2, OSL: 527, Turns: 1},
		},
		"prefix": {
			withContent(&spatev1.RandomContent{Isl: 5, Osl: 5, RangeRatio: 0.2, Prefix: &spatev1.Prefix{Length: 2}}),
			Messages, 0,
			`[{"role":"user","content":"their making line sum"}]`, Spec{ISL: 4, OSL: 5, Shared: 2, Turns: 1},
		},
		"busted": {busted, Text, 0, `"better through object font it live section most back"`,
			Spec{ISL: 9, OSL: 1, Turns: 1}},
		"sessions": {chat(&spatev1.SessionContent{
			Turns: 2, Isl: 2, Osl: 1, System: 1, Play: &spatev1.SessionPlay{History: "planned"},
		}), Messages, 1, `[{"role":"system","content":"title"},{"role":"user","content":"less land"},` +
			`{"role":"assistant","content":"without"},{"role":"user","content":"before months"}]`,
			Spec{ISL: 6, OSL: 1, Shared: 3, Turns: 2}},
	} {
		w := newWorkload(t, Config{Workload: c.workload, Seed: 9, Run: "run"})
		got := string(promptOf(t, w, nil, Request{Index: 7, Turn: c.turn, Form: c.form}))
		if got != c.want {
			t.Errorf("%s: prompt\n%s, want\n%s", name, got, c.want)
		}
		if a := specOf(t, w, 7, c.turn); a != c.spec {
			t.Errorf("%s: asks for %+v, want %+v", name, a, c.spec)
		}
	}
}

// TestRequestsDiffer: among many requests, of neighbouring seeds and indices, no two start with the same 16 tokens.
func TestRequestsDiffer(t *testing.T) {
	for _, form := range []Form{Text, TokenIDs} {
		seen := make(map[string]bool)
		n := 0
		for seed := range uint64(20) {
			w := newRandomWorkload(t, &spatev1.RandomContent{Isl: 16, Osl: 1}, seed)
			for index := range uint64(1000) {
				seen[string(prompt(t, w, nil, index, form))] = true
				n++
			}
		}
		if len(seen) != n {
			t.Errorf("form %d: %d of %d prompts are different", form, len(seen), n)
		}
	}
}

// chiSquare returns how far counts are from uniform, in standard deviations of the statistic: (x - f) / sqrt(2f) with f
// degrees of freedom.
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want, x := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		x += (float64(c) - want) * (float64(c) - want) / want
	}
	freedom := float64(len(counts) - 1)
	return (x - freedom) / math.Sqrt(2*freedom)
}

// TestUniform: all ids and all words are equally frequent, over all places of a prompt and at its first place alone.
// Four standard deviations are allowed on both sides; the seeds are fixed.
func TestUniform(t *testing.T) {
	for name, c := range map[string]struct {
		isl      uint32
		requests uint64
	}{"all places": {1000, 300}, "first place": {1, 300_000}} {
		w := newRandomWorkload(t, &spatev1.RandomContent{Isl: c.isl, Osl: 1}, 9)
		ids, texts := make([]int, 9000), make([]int, len(ownWords))
		var buffer []byte
		for index := range c.requests {
			buffer = prompt(t, w, buffer[:0], index, TokenIDs)
			for id := range bytes.SplitSeq(bytes.Trim(buffer, "[]"), []byte(",")) {
				ids[int(id[0]-'1')*1000+int(id[1]-'0')*100+int(id[2]-'0')*10+int(id[3]-'0')]++
			}
			buffer = prompt(t, w, buffer[:0], index, Text)
			for word := range bytes.SplitSeq(bytes.Trim(buffer, `"`), []byte(" ")) {
				i, _ := placeOf(string(word))
				texts[i]++
			}
		}
		if far := chiSquare(ids); math.Abs(far) > 4 {
			t.Errorf("%s: ids are %.1f standard deviations from uniform", name, far)
		}
		if far := chiSquare(texts); math.Abs(far) > 4 {
			t.Errorf("%s: words are %.1f standard deviations from uniform", name, far)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	sessions := func(c *spatev1.SessionContent) *spatev1.Workload {
		return &spatev1.Workload{Content: &spatev1.Workload_Sessions{Sessions: c}}
	}
	for name, c := range map[string]Config{
		"nothing":    {},
		"no content": {Workload: &spatev1.Workload{Name: "x"}},
		"no isl":     {Workload: withContent(&spatev1.RandomContent{Osl: 1})},
		"no osl":     {Workload: withContent(&spatev1.RandomContent{Isl: 1})},
		"isl twice": {Workload: withContent(&spatev1.RandomContent{Isl: 1, Osl: 1,
			IslLengths: uniformOf(1, 2)})},
		"empty word": {Workload: withContent(&spatev1.RandomContent{Isl: 1, Osl: 1}),
			Words: []string{"a", ""}},
		"busting with one word": {Words: []string{"a"}, Workload: &spatev1.Workload{
			CacheBusting: "request", Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{Isl: 1, Osl: 1}},
		}},
		"no turns": {Workload: sessions(&spatev1.SessionContent{Isl: 1, Osl: 1})},
		"too many turns": {Workload: sessions(&spatev1.SessionContent{TurnCounts: normalOf(5, 1e6, 0, 0),
			Isl: 1, Osl: 1})},
		"too long":      {Workload: sessions(&spatev1.SessionContent{Turns: 10_000, Isl: 1 << 24, Osl: 1})},
		"no isl a turn": {Workload: sessions(&spatev1.SessionContent{Turns: 1, Osl: 1})},
		"no osl a turn": {Workload: sessions(&spatev1.SessionContent{Turns: 1, Isl: 1})},
		"answers as ids": {Form: TokenIDs,
			Workload: sessions(&spatev1.SessionContent{Turns: 2, Isl: 1, Osl: 1})},
		"empty word in sessions": {Words: []string{""},
			Workload: sessions(&spatev1.SessionContent{Turns: 2, Isl: 1, Osl: 1})},
	} {
		if w, err := New(c); err == nil || w != nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestPromptDoesNotAllocate reuses a buffer that is large enough.
func TestPromptDoesNotAllocate(t *testing.T) {
	for name, c := range map[string]Config{
		"random": {Workload: withContent(&spatev1.RandomContent{IslLengths: lognormalOf(500, 100, 0, 600), Osl: 1})},
		"prefix": {Workload: withContent(&spatev1.RandomContent{Isl: 500, Osl: 1,
			Prefix: &spatev1.Prefix{Length: 100, Groups: 5, Share: 0.5}})},
		"busting": {Workload: &spatev1.Workload{CacheBusting: "request",
			Content: withContent(&spatev1.RandomContent{Isl: 500, Osl: 1}).Content}},
		"sessions": {Workload: chat(&spatev1.SessionContent{System: 50, Turns: 5, Isl: 100, Osl: 50,
			Play: &spatev1.SessionPlay{History: "planned"}})},
		"words": {Workload: withContent(&spatev1.RandomContent{Isl: 500, Osl: 1}),
			Words: []string{"longer than eight", "b"}},
	} {
		w := newWorkload(t, c)
		turn := specOf(t, w, 1, 0).Turns - 1
		for _, form := range []Form{Text, TokenIDs, Messages} {
			buffer := make([]byte, 0, 1<<20)
			index := uint64(0)
			if n := testing.AllocsPerRun(20, func() {
				index++
				buffer = promptOf(t, w, buffer[:0], Request{Index: index, Turn: turn, Form: form})
			}); n != 0 {
				t.Errorf("%s, form %d: %v allocations", name, form, n)
			}
			if n := testing.AllocsPerRun(20, func() { index++; specOf(t, w, index, turn) }); n != 0 {
				t.Errorf("%s: %v allocations to ask", name, n)
			}
		}
	}
}

// BenchmarkPrompt makes prompts of 3,000 tokens.
func BenchmarkPrompt(b *testing.B) {
	for name, form := range map[string]Form{"text": Text, "ids": TokenIDs, "messages": Messages} {
		for of, w := range map[string]Workload{
			"random": newRandomWorkload(b, &spatev1.RandomContent{Isl: 3000, Osl: 150}, 1),
			"prefix": newRandomWorkload(b, &spatev1.RandomContent{Isl: 3000, Osl: 150,
				Prefix: &spatev1.Prefix{Length: 1000, Groups: 100}}, 1),
			"10th turn": newWorkload(b, Config{Workload: chat(&spatev1.SessionContent{
				System: 50, Turns: 10, Isl: 200, Osl: 105, Play: &spatev1.SessionPlay{History: "planned"},
			})}),
		} {
			b.Run(of+"/"+name, func(b *testing.B) {
				turn := specOf(b, w, 0, 0).Turns - 1
				buffer := prompt(b, w, nil, 0, form)
				b.ReportAllocs()
				for i := uint64(0); b.Loop(); i++ {
					buffer = promptOf(b, w, buffer[:0], Request{Index: i, Turn: turn, Form: form})
				}
			})
		}
	}
}
