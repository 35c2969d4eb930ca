package workload

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// linked is a trace with a conversation of text, one of lengths, one of blocks, and one with branches.
const linked = `
{"session_id": "text", "timestamp": 0, "text_input": "one \"two\"", "output_length": 3}
{"session_id": "text", "delay": 100, "text_input": "three", "output_length": 4}
{"session_id": "text", "timestamp": 700, "text_input": "four five", "output_length": 5}
{"session_id": "lengths", "timestamp": 1, "input_length": 4, "output_length": 2}
{"session_id": "lengths", "input_length": 3, "output_length": 2}
{"session_id": "blocks", "timestamp": 2, "input_length": 4, "output_length": 2, "hash_ids": [1, 2]}
{"session_id": "blocks", "input_length": 6, "output_length": 2, "hash_ids": [1, 2, 3]}`

const branching = `
{"session_id": "main", "request_id": "plan", "text_input": "plan", "output_length": 2}
{"request_id": "a", "wait_for": ["plan"], "delay": 5, "text_input": "a", "output_length": 2}
{"session_id": "sub", "request_id": "b", "wait_for": ["plan"], "text_input": "b", "output_length": 2}
{"session_id": "main", "wait_for": ["a", "b"], "text_input": "join", "output_length": 2}`

// played returns the workload of a trace whose sessions are played as chats.
func played(t testing.TB, source string, play *spatev1.SessionPlay, c Config) Workload {
	t.Helper()
	w := &spatev1.Workload{Name: "m", Content: &spatev1.Workload_Mooncake{
		Mooncake: &spatev1.TraceContent{BlockTokens: 2, Sessions: play}}}
	c.Form = Messages
	return fromFile(t, w, strings.TrimSpace(source), c)
}

// said returns the messages of a request, each with its role.
func said(t testing.TB, w Workload, r Request) (messages []string) {
	t.Helper()
	r.Form = Messages
	b, err := w.AppendPrompt(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Role, Content string }
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	for _, m := range list {
		messages = append(messages, m.Role+" "+m.Content)
	}
	return messages
}

func TestTurnsOfTracesContinueTheirHistory(t *testing.T) {
	answers := [][]byte{[]byte(`a0`), []byte(`a\"1`)}
	w := played(t, linked, &spatev1.SessionPlay{}, Config{})
	if got := said(t, w, Request{Turn: 2, Answers: answers}); !slices.Equal(got,
		[]string{`user one "two"`, "assistant a0", "user three", `assistant a"1`, "user four five"}) {
		t.Errorf("%q", got)
	}
	if _, err := w.AppendPrompt(nil, Request{Turn: 2, Answers: answers[:1], Form: Messages}); err == nil {
		t.Error("an answer is missing, and nothing said so")
	}
	first, second := said(t, w, Request{Index: 1}), said(t, w, Request{Index: 1, Turn: 1, Answers: answers})
	if len(second) != 3 || second[0] != first[0] || wordCount(second[2]) != 1+3 || wordCount(first[0]) != 1+4 {
		t.Errorf("%q, then %q", first, second)
	}
	planned := played(t, linked, &spatev1.SessionPlay{History: "planned"}, Config{})
	if got := said(t, planned, Request{Turn: 2}); len(got) != 5 || wordCount(got[1]) != 1+3 ||
		wordCount(got[3]) != 1+4 {
		t.Errorf("planned: %q", got)
	}
	alone := played(t, linked, &spatev1.SessionPlay{History: "none"}, Config{})
	if got := said(t, alone, Request{Turn: 2}); !slices.Equal(got, []string{"user four five"}) {
		t.Errorf("without a history: %q", got)
	}
	// Blocks are whole prompts that start alike, and the next pass over the trace has other ones.
	one, two := said(t, w, Request{Index: 2}), said(t, w, Request{Index: 2, Turn: 1})
	if len(two) != 1 || !strings.HasPrefix(two[0], one[0]+" ") || wordCount(two[0]) != 1+6 {
		t.Errorf("%q, then %q", one, two)
	}
	if _, grouped, err := Group(w, 2); !grouped || err != nil {
		t.Errorf("the session has no group for affinity: %v", err)
	}
	if again := said(t, w, Request{Index: 5}); again[0] == one[0] {
		t.Error("the next pass has the same blocks")
	}
}

func TestSpecOfTurnsOfTraces(t *testing.T) {
	scale := 0.5
	for name, c := range map[string]struct {
		play *spatev1.SessionPlay
		c    Config
		at   Request
		want Spec
	}{
		"first": {at: Request{}, want: Spec{ISL: 2, OSL: 3, Turns: 3}},
		"delay": {at: Request{Turn: 1},
			want: Spec{ISL: 2 + 3 + 1, OSL: 4, Shared: 5, Turns: 3, Previous: 1, Pause: 100 * time.Millisecond}},
		"time": {at: Request{Turn: 2},
			want: Spec{ISL: 12, OSL: 5, Shared: 10, Turns: 3, Previous: 2, NotBefore: 700 * time.Millisecond}},
		"blocks": {at: Request{Index: 2, Turn: 1}, want: Spec{ISL: 6, OSL: 2, Shared: 4, Turns: 2}},
		"planned": {play: &spatev1.SessionPlay{History: "planned"}, at: Request{Index: 1, Turn: 1},
			want: Spec{ISL: 9, OSL: 2, Shared: 4, Turns: 2}},
		"scaled": {play: &spatev1.SessionPlay{DelayScale: &scale}, at: Request{Turn: 1},
			want: Spec{ISL: 6, OSL: 4, Shared: 5, Turns: 3, Previous: 1, Pause: 50 * time.Millisecond}},
		"with a template": {c: Config{Template: 1}, at: Request{Turn: 1},
			want: Spec{OSL: 4, Shared: 5, Turns: 3, Previous: 1, Pause: 100 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.play == nil {
				c.play = &spatev1.SessionPlay{}
			}
			w := played(t, linked, c.play, c.c)
			got, err := w.Spec(c.at.Index, c.at.Turn)
			if diff := gocmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	w := played(t, linked, &spatev1.SessionPlay{}, Config{})
	if _, err := w.Spec(1, 2); err == nil || !strings.Contains(err.Error(), "turn 2 of row 1 does not exist") {
		t.Errorf("%v", err)
	}
}

func TestBranchesContinueWhatTheyBranchFrom(t *testing.T) {
	w := played(t, branching, &spatev1.SessionPlay{}, Config{})
	brancher, _ := w.(Brancher)
	waits, err := brancher.Waits(1)
	if diff := gocmp.Diff([][]int{nil, {0}, {0}, {0, 1, 2}}, waits); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	answers := [][]byte{[]byte("p"), []byte("x"), []byte("y"), nil}
	for turn, want := range [][]string{
		{"user plan"}, {"user plan", "assistant p", "user a"}, {"user b"}, {"user plan", "assistant p", "user join"},
	} {
		if got := said(t, w, Request{Turn: turn, Answers: answers}); !slices.Equal(got, want) {
			t.Errorf("turn %d: %q", turn, got)
		}
		s, err := w.Spec(0, turn)
		if !s.Branches || s.Turns != 4 || err != nil {
			t.Errorf("turn %d: %+v %v", turn, s, err)
		}
	}
}

// TestHistoriesNeedText: a history with the server's answers cannot be sent as token ids, but whole prompts can.
func TestHistoriesNeedText(t *testing.T) {
	w := &spatev1.Workload{Name: "m", Content: &spatev1.Workload_Mooncake{
		Mooncake: &spatev1.TraceContent{BlockTokens: 2, Sessions: &spatev1.SessionPlay{}}}}
	blocks := `{"session_id": "blocks", "timestamp": 2, "input_length": 4, "output_length": 2, "hash_ids": [1, 2]}`
	b, err := fromFile(t, w, blocks, Config{Form: TokenIDs}).AppendPrompt(nil, Request{Form: TokenIDs})
	if err != nil || strings.Count(string(b), ",") != 3 {
		t.Errorf("%s %v", b, err)
	}
	lengths := `{"session_id": "a", "input_length": 4}
{"session_id": "a", "input_length": 4}`
	c := Config{Workload: w, Form: TokenIDs, Rows: rowsOf(t, w, lengths, wordCount)}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "set history to planned") {
		t.Errorf("%v", err)
	}
}
