package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// chat returns a workload of sessions.
func chat(c *spatev1.SessionContent) *spatev1.Workload {
	return &spatev1.Workload{Content: &spatev1.Workload_Sessions{Sessions: c}}
}

// sessionContents draws sessions of up to 6 turns with planned answers.
var sessionContents = rapid.Custom(func(t *rapid.T) *spatev1.SessionContent {
	c := &spatev1.SessionContent{
		TurnCounts: uniformOf(1, rapid.Uint32Range(1, 6).Draw(t, "turns")),
		System:     rapid.SampledFrom([]uint32{0, 0, 3, 50}).Draw(t, "system"),
		Play:       &spatev1.SessionPlay{History: "planned"},
	}
	if rapid.Bool().Draw(t, "lengths") {
		c.IslLengths, c.OslLengths = distributions.Draw(t, "isl"), distributions.Draw(t, "osl")
	} else {
		c.Isl, c.Osl = rapid.Uint32Range(1, 100).Draw(t, "isl"), rapid.Uint32Range(1, 100).Draw(t, "osl")
	}
	return c
})

// TestSessionsGrow: each prompt of a session is the previous prompt, then its answer and a new message. The roles
// alternate after the system prompt. Shared is the length that prompts really have in common.
func TestSessionsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := sessionContents.Draw(t, "content")
		w := newWorkload(t, Config{Workload: chat(c), Seed: rapid.Uint64().Draw(t, "seed")})
		index := rapid.Uint64Range(1, 1000).Draw(t, "index")
		form := rapid.SampledFrom([]Form{Text, TokenIDs, Messages}).Draw(t, "form")
		before := flat(parsePrompt(t, promptOf(t, w, nil, Request{Index: index - 1, Form: form}), form))
		for turn := range specOf(t, w, index, 0).Turns {
			all := parsePrompt(t, promptOf(t, w, nil, Request{Index: index, Turn: turn, Form: form}), form)
			if form == Messages {
				checkRoles(t, all, c.GetSystem(), turn)
			}
			now, a := flat(all), specOf(t, w, index, turn)
			// After the system prompt, two sessions can be equal by chance.
			if got := alike(before, now); got < int(a.Shared) || got > int(a.Shared)+5 {
				t.Fatalf("turn %d of session %d begins alike for %d tokens, want %d", turn, index, got, a.Shared)
			}
			before = now
		}
	})
}

// checkRoles checks the roles: system if there is a system prompt, then user and assistant alternating, user last.
func checkRoles(t *rapid.T, all []message, systemTokens uint32, turn int) {
	var want []string
	if systemTokens > 0 {
		want = append(want, "system")
		if len(all[0].tokens) != int(systemTokens) {
			t.Fatalf("the system prompt has %d tokens, want %d", len(all[0].tokens), systemTokens)
		}
	}
	want = append(want, "user")
	for range turn {
		want = append(want, "assistant", "user")
	}
	var got []string
	for _, m := range all {
		got = append(got, m.role)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("roles %v, want %v", got, want)
	}
}

// TestSessionSpec follows one session by hand.
func TestSessionSpec(t *testing.T) {
	for history, shared := range map[string][3]uint32{"server": {10, 130, 250}, "planned": {10, 110, 230}} {
		w := newWorkload(t, Config{Workload: chat(&spatev1.SessionContent{
			Turns: 3, Isl: 100, Osl: 20, System: 10,
			Play: &spatev1.SessionPlay{History: history,
				ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(2 * time.Second)}},
		})})
		for turn, isl := range []uint32{110, 230, 350} {
			want := Spec{ISL: isl, OSL: 20, Shared: shared[turn], Turns: 3}
			if turn > 0 {
				want.Pause = 2 * time.Second
			}
			if history == "server" {
				want.Previous = turn
			}
			if got := specOf(t, w, 4, turn); got != want {
				t.Errorf("%s, turn %d: %+v, want %+v", history, turn, got, want)
			}
		}
		if got := specOf(t, w, 0, 0); got.Shared != 0 {
			t.Errorf("the first session shares %d tokens", got.Shared)
		}
		for _, turn := range []int{-1, 3} {
			if a, err := w.Spec(0, turn); err == nil {
				t.Errorf("turn %d of 3 asks for %+v", turn, a)
			}
			if got, err := w.AppendPrompt(nil, Request{Turn: turn}); err == nil {
				t.Errorf("turn %d of 3 is %q", turn, got)
			}
		}
	}
}

// TestSessionTemplate: the template's tokens are only known for a prompt of one message.
func TestSessionTemplate(t *testing.T) {
	for systemTokens, want := range map[uint32][2]uint32{0: {50, 0}, 10: {0, 0}} {
		w := newWorkload(t, Config{Template: 8, Workload: chat(&spatev1.SessionContent{
			Turns: 2, Isl: 50, Osl: 20, System: systemTokens, Play: &spatev1.SessionPlay{History: "planned"},
		})})
		for turn, isl := range want {
			if got := specOf(t, w, 1, turn); got.ISL != isl {
				t.Errorf("system %d, turn %d: ISL %d, want %d", systemTokens, turn, got.ISL, isl)
			}
			tokens := flat(parsePrompt(t, promptOf(t, w, nil, Request{Index: 1, Turn: turn, Form: Messages}), Messages))
			if want := int(systemTokens) + 42 + turn*70; len(tokens) != want {
				t.Errorf("system %d, turn %d: %d words, want %d", systemTokens, turn, len(tokens), want)
			}
		}
	}
}

// TestSessionAnswers: the history holds the server's answers unchanged, even if they are empty or missing.
func TestSessionAnswers(t *testing.T) {
	w := newWorkload(t, Config{Workload: chat(&spatev1.SessionContent{Turns: 4, Isl: 2, Osl: 20})})
	answers := [][]byte{[]byte(`say \"hi\"\n\u00e9`), nil, []byte(" x")}
	r := Request{Index: 3, Turn: 3, Form: Messages, Answers: answers}
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal(promptOf(t, w, nil, r), &messages); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages[1:] {
		if m.Role == "assistant" {
			got = append(got, m.Content)
		}
	}
	if want := []string{"say \"hi\"\né", "", " x"}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	users := make([]any, 0, 4)
	for turn := range 4 {
		users = append(users, messages[2*turn].Content)
	}
	r.Form = Text
	var text string
	if err := json.Unmarshal(promptOf(t, w, nil, r), &text); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%ssay \"hi\"\né %s %s x %s", users...); text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	r.Form, r.Answers = Messages, answers[:2]
	if _, err := w.AppendPrompt(nil, r); err == nil || !strings.Contains(err.Error(), "but 2 were given") {
		t.Errorf("a missing answer: %v", err)
	}
}

// TestSessionsCacheBusting: all sessions start differently, within a run and between two runs, but the turns of a
// session start alike.
func TestSessionsCacheBusting(t *testing.T) {
	for _, systemTokens := range []uint32{0, 3, 50} {
		w := func(run string) Workload {
			x := chat(&spatev1.SessionContent{
				Turns: 2, Isl: 20, Osl: 5, System: systemTokens, Play: &spatev1.SessionPlay{History: "planned"},
			})
			x.CacheBusting = "request"
			return newWorkload(t, Config{Seed: 3, Run: run, Workload: x})
		}
		one, two := w("one"), w("two")
		tokens := func(w Workload, index uint64, turn int) []string {
			prompt := promptOf(t, w, nil, Request{Index: index, Turn: turn, Form: Messages})
			return flat(parsePrompt(t, prompt, Messages))
		}
		a, again, next, other := tokens(one, 5, 0), tokens(one, 5, 1), tokens(one, 6, 0), tokens(two, 5, 0)
		if alike(a, next) > 3 || alike(a, other) > 3 {
			t.Errorf("system %d: sessions begin alike: %q, %q, %q", systemTokens, a, next, other)
		}
		if alike(a, again) != len(a) || !slices.Equal(a[8:], other[8:]) {
			t.Errorf("system %d: %q, %q and %q differ beyond the start", systemTokens, a, again, other)
		}
		if got := specOf(t, one, 5, 0).Shared; got != 0 {
			t.Errorf("system %d: %d tokens are shared", systemTokens, got)
		}
		if len(a) != int(systemTokens)+20 {
			t.Errorf("system %d: %d tokens", systemTokens, len(a))
		}
	}
}

// TestThinkTime: exponential pauses have the configured mean and distribution. The first turn has no pause. The
// distribution may be off by 1.95/sqrt(n) at most, which chance exceeds in 1 of 1,000 cases (Kolmogorov). The seed is
// fixed.
func TestThinkTime(t *testing.T) {
	const n, mean = 100_000, 3 * time.Second
	w := newWorkload(t, Config{Seed: 8, Workload: chat(&spatev1.SessionContent{
		Turns: 3, Isl: 1, Osl: 1,
		Play: &spatev1.SessionPlay{ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(mean),
			Distribution: "exponential"}},
	})})
	x := make([]float64, 0, n)
	for i := range uint64(n / 2) {
		if pause := specOf(t, w, i, 0).Pause; pause != 0 {
			t.Fatalf("session %d begins with a pause of %v", i, pause)
		}
		for turn := 1; turn < 3; turn++ {
			x = append(x, specOf(t, w, i, turn).Pause.Seconds())
		}
	}
	d := farthest(x, func(s float64) float64 { return 1 - math.Exp(-s/mean.Seconds()) })
	if limit := 1.95 / math.Sqrt(n); d > limit {
		t.Errorf("distribution is %.5f off, at most %.5f allowed", d, limit)
	}
}

// TestTurnCounts: sessions have the configured numbers of turns, all equally often. The seed is fixed.
func TestTurnCounts(t *testing.T) {
	w := newWorkload(t, Config{Seed: 2,
		Workload: chat(&spatev1.SessionContent{TurnCounts: uniformOf(2, 5), Isl: 1, Osl: 1})})
	counts := make([]int, 4)
	for i := range uint64(40_000) {
		counts[specOf(t, w, i, 0).Turns-2]++
	}
	if far := chiSquare(counts); math.Abs(far) > 4 {
		t.Errorf("%v are %.1f standard deviations from uniform", counts, far)
	}
}
