package dataset

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/rows"
)

// sessionsOf returns a workload that plays the sessions of a trace in Mooncake's form.
func sessionsOf(play *spatev1.SessionPlay) *spatev1.Workload {
	return mooncakeOf(&spatev1.TraceContent{Sessions: cmp.Or(play, &spatev1.SessionPlay{})})
}

// shapeOf describes the sessions of rows, a line for each: when it starts, and then its requests, with what they wait
// for, their delay and their content.
func shapeOf(t *testing.T, r *rows.File) string {
	t.Helper()
	var out strings.Builder
	for _, row := range rowsOf(t, r) {
		fmt.Fprintf(&out, "%v:", row.At)
		for i, s := range row.Steps {
			if err := row.OpenStep(i); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, " %d%v", i, s.After)
			if s.Delay > 0 {
				fmt.Fprintf(&out, "+%v", s.Delay)
			}
			if s.At > 0 {
				fmt.Fprintf(&out, "@%v", s.At)
			}
			if s.Continues {
				fmt.Fprintf(&out, "<%d", s.Previous-1)
			}
			fmt.Fprintf(&out, "=%d:%d%s%v", row.ISL, row.OSL, row.Content, row.Blocks)
		}
		out.WriteByte('\n')
	}
	return strings.ReplaceAll(out.String(), "[]", "")
}

func TestSessionsOfTraces(t *testing.T) {
	for name, c := range map[string]struct {
		w            *spatev1.Workload
		source, want string
	}{
		"turns follow each other after their delay, and sessions start by the time of their first row": {
			sessionsOf(nil), `
{"session_id": "b", "timestamp": 1500, "text_input": "one", "output_length": 5}
{"session_id": "a", "timestamp": 1000, "input_length": 10, "output_length": 5}
{"session_id": "b", "delay": 250.5, "text_input": "two more", "output_length": 6}
{"session_id": "a", "timestamp": 1200, "input_length": 11, "output_length": 7}
{"session_id": "a", "input_length": 12, "output_length": 8}
{"timestamp": 1100, "text_input": "alone", "output_length": 1}`, `
0s: 0=10:5 1[0]@200ms<0=11:7 2[1]<1=12:8
100ms: 0=1:1alone
500ms: 0=1:5one 1[0]+250.5ms<0=2:6two more
`},
		"whole prompts": {
			sessionsOf(&spatev1.SessionPlay{History: "none"}), `
{"session_id": 7, "text_input": "one", "output_length": 5}
{"session_id": 7, "text_input": "one two", "output_length": 6}`, `
0s: 0=1:5one 1[0]=2:6one two
`},
		"blocks and messages are whole prompts": {
			sessionsOf(nil), `
{"session_id": "a", "timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
{"session_id": "a", "delay_ms": 3, "input_length": 1200, "output_length": 5, "hash_ids": [1, 2, 3]}
{"session_id": "m", "timestamp": 5, "output_length": 5, "messages": [{"role": "user", "content": "Hi"}]}
{"session_id": "m", "output_length": 6, "messages": [{"role": "user", "content": "Ho"}]}`, `
0s: 0=600:5[1 2] 1[0]+3ms=1200:5[1 2 3]
5ms: 0=1:5[{"role":"user","content":"Hi"}] 1[0]=1:6[{"role":"user","content":"Ho"}]
`},
		"branches fan out and join, in Dynamo's form": {
			sessionsOf(nil), `
{"request_id": "join", "session_id": "main", "wait_for": ["b", "a"], "delay": 10, "tool_wait_ms": 5, "input_length": 4, "output_length": 1, "hash_ids": [4]}
{"request_id": "plan", "session_id": "main", "timestamp": 100, "input_tokens": 1, "output_tokens": 1, "hash_ids": [1]}
{"request_id": "a", "wait_for": ["plan"], "tool_wait_ms": 2, "input_length": 2, "output_length": 1, "hash_ids": [2]}
{"request_id": "b", "session_id": "sub", "wait_for": ["plan"], "input_length": 3, "output_length": 1, "hash_ids": [3]}
{"request_id": "other", "timestamp": 103, "input_length": 5, "output_length": 1, "hash_ids": [5]}
{"request_id": "root", "session_id": "sub", "wait_for": [], "timestamp": 102, "input_length": 6, "output_length": 1, "hash_ids": [6]}`, `
0s: 0=1:1[1] 1[0]+2ms=2:1[2] 2[0]=3:1[3] 3[1 2]+15ms=4:1[4] 4@2ms=6:1[6]
3ms: 0=5:1[5]
`},
		"a branch without session_id continues what it waits for, and a join the session before": {
			sessionsOf(nil), `
{"session_id": "main", "request_id": "plan", "text_input": "plan", "output_length": 1}
{"request_id": "a", "wait_for": ["plan"], "text_input": "a", "output_length": 1}
{"session_id": "sub", "request_id": "b", "wait_for": ["plan"], "text_input": "b", "output_length": 1}
{"session_id": "main", "wait_for": ["a", "b"], "text_input": "join", "output_length": 1}`, `
0s: 0=1:1plan 1[0]<0=1:1a 2[0]=1:1b 3[0 1 2]<0=1:1join
`},
		"Bailian's chats follow their parents at their own times, if the trace has them": {
			bailianOf(&spatev1.TraceContent{Sessions: &spatev1.SessionPlay{}}), `
{"chat_id": 1, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 16, "output_length": 5, "turn": 1, "hash_ids": [1]}
{"chat_id": 2, "parent_chat_id": 77, "timestamp": 62, "input_length": 16, "output_length": 5, "turn": 4, "hash_ids": [9]}
{"chat_id": 3, "parent_chat_id": 1, "timestamp": 63.5, "input_length": 32, "output_length": 5, "turn": 2, "hash_ids": [1, 2]}`, `
0s: 0=16:5[1] 1[0]@2s=32:5[1 2]
500ms: 0=16:5[9]
`},
	} {
		t.Run(name, func(t *testing.T) {
			_, skipped, r := built(t, c.w, strings.TrimSpace(c.source), Options{Count: countWords})
			if got := "\n" + shapeOf(t, r); got != c.want {
				t.Errorf("got%swant%s", got, c.want)
			}
			if skipped.Unusable+skipped.Excluded != 0 {
				t.Errorf("skipped %+v", skipped)
			}
		})
	}
}

// TestSharedOfSteps: what an earlier row of the file started with is shared, and the longest request of a session has
// its whole history.
func TestSharedOfSteps(t *testing.T) {
	d, _, r := built(t, sessionsOf(nil), `{"session_id": "a", "timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
{"session_id": "b", "timestamp": 1, "input_length": 10, "output_length": 5}
{"session_id": "a", "input_length": 1200, "output_length": 5, "hash_ids": [1, 3, 4]}
{"session_id": "b", "input_length": 2000, "output_length": 7}`, Options{})
	if s := rowsOf(t, r)[0].Steps; s[0].Shared != 0 || s[1].Shared != 512 {
		t.Errorf("shared %d, %d", s[0].Shared, s[1].Shared)
	}
	if d.GetLongest() != 10+5+2000+7 || d.GetRows() != 2 || d.GetSpan().AsDuration() != time.Millisecond {
		t.Errorf("%v", d)
	}
}

func TestUnusableSessions(t *testing.T) {
	const good = `{"timestamp": 1, "text_input": "x"}` + "\n"
	for name, c := range map[string]struct{ source, want string }{
		"missing parent": {good + `{"request_id": "a", "timestamp": 2, "wait_for": ["b"], "text_input": "x"}`,
			`line 2 waits for "b", but no usable row has this request_id`},
		"its session": {good + `{"session_id": "s", "timestamp": 2, "text_input": "x"}
{"session_id": "s", "timestamp": 2, "wait_for": ["b"], "text_input": "x"}`,
			`line 3 waits for "b", but no usable row has this request_id; line 2 is of the same session as line 3, which cannot be used`},
		"circle": {good + `{"request_id": "a", "timestamp": 2, "wait_for": ["c"], "text_input": "x"}
{"request_id": "b", "wait_for": ["a"], "text_input": "x"}
{"request_id": "c", "wait_for": ["b"], "text_input": "x"}`, `line 2 waits for itself, by way of lines 2, 4, 3, 2`},
		"itself": {good + `{"request_id": "a", "timestamp": 2, "wait_for": ["a"], "text_input": "x"}`,
			"line 2 waits for itself, by way of lines 2, 2"},
		"twice": {good + `{"request_id": "a", "timestamp": 2, "text_input": "x"}
{"request_id": "a", "timestamp": 2, "text_input": "x"}`, `line 3 has the request_id "a" of line 2`},
		"no time": {good + `{"session_id": "a", "text_input": "x"}`,
			"line 2 is the first of its session and has no timestamp, as other rows have"},
		"negative delay": {good + `{"session_id": "a", "delay": -1, "text_input": "x"}`, "line 2 delay is -1: it must not be negative"},
		"long delay": {good + `{"session_id": "a", "delay": 1e12, "text_input": "x"}`,
			"delay is 1e12: it must be at most 31622400000, which is a year"},
		"text behind messages": {good + `{"session_id": "a", "timestamp": 2, "messages": [{"role": "user", "content": "Hi"}]}
{"session_id": "a", "text_input": "x"}`, "line 3 continues the messages of line 2: give the whole messages here, too"},
		"session_id": {good + `{"session_id": [], "timestamp": 2, "text_input": "x"}`, "session_id is an array, not a string"},
		"wait_for":   {good + `{"wait_for": "a", "timestamp": 2, "text_input": "x"}`, "wait_for is a string, not an array"},
	} {
		t.Run(name, func(t *testing.T) {
			got := refused(t, sessionsOf(nil), c.source)
			if !strings.Contains(got, c.want) {
				t.Errorf("%s\nwant: %s", got, c.want)
			}
		})
	}
}

// TestTooManySteps: a session of more than 10,000 requests is not used.
func TestTooManySteps(t *testing.T) {
	line := `{"session_id": "a", "text_input": "x"}` + "\n"
	if got := refused(t, sessionsOf(nil), strings.Repeat(line, maxSteps+1)); !strings.Contains(got,
		"line 1 starts a session of 10001 requests, more than 10000") {
		t.Error(got)
	}
}

// TestTooLargeSessions: rows that do not fit into memory are refused, and what rows have in common does not count.
func TestTooLargeSessions(t *testing.T) {
	b := &builder{skipped: &Skipped{Unit: "line"}}
	s := &sessionBuilder{b: b, limit: 8 << 10, byName: map[string]int{}, last: map[string]int{}}
	add := func(session string) error {
		return s.add(1, linkedRow{session: session,
			content: &rows.Row{Kind: rows.Text, Content: bytes.Repeat([]byte("x"), 3<<10)}})
	}
	for range 5 {
		if err := add("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmp.Or(add("b"), add("c")); err == nil || !strings.Contains(err.Error(), "split the trace") {
		t.Errorf("%v", err)
	}
}

// TestSessionsOracle: whatever order the rows of a graph have in a file, each request comes behind what it waits for,
// and all rows that are connected are one session.
func TestSessionsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "rows")
		waits := make([][]int, n) // for rows before it only, so that there is no circle
		group := make([]int, n)
		for i := range n {
			group[i] = i
			for j := range i {
				if rapid.IntRange(0, 4).Draw(t, "wait") > 0 {
					continue
				}
				waits[i] = append(waits[i], j)
				old := group[j]
				for k := range group {
					if group[k] == old {
						group[k] = group[i]
					}
				}
			}
		}
		lines := make([]string, n)
		for i := range n {
			names := []string{}
			for _, j := range waits[i] {
				names = append(names, fmt.Sprintf("%q", fmt.Sprint(j)))
			}
			lines[i] = fmt.Sprintf(`{"request_id": "%d", "input_length": %d, "output_length": 1, "hash_ids": [%d], "wait_for": [%s]}`,
				i, i+1, i, strings.Join(names, ","))
		}
		lines = rapid.Permutation(lines).Draw(t, "lines")
		_, skipped, r := built(t, sessionsOf(nil), strings.Join(lines, "\n"), Options{})
		if skipped.Unusable > 0 {
			t.Fatalf("%v", skipped)
		}
		groups := map[int]bool{}
		for _, g := range group {
			groups[g] = true
		}
		if int(r.Len()) != len(groups) {
			t.Fatalf("%d sessions, want %d", r.Len(), len(groups))
		}
		seen := 0
		for _, row := range rowsOf(t, r) {
			var ids []int // by step
			for i := range row.Steps {
				if err := row.OpenStep(i); err != nil || len(row.Blocks) != 1 {
					t.Fatalf("%v %v", row.Blocks, err)
				}
				ids = append(ids, int(row.Blocks[0]))
			}
			for i, s := range row.Steps {
				var after []int
				for _, a := range s.After {
					after = append(after, ids[a])
				}
				slices.Sort(after)
				if !slices.Equal(after, waits[ids[i]]) || group[ids[i]] != group[ids[0]] {
					t.Fatalf("request %d waits for %v, want %v", ids[i], after, waits[ids[i]])
				}
			}
			seen += len(ids)
		}
		if seen != n {
			t.Fatalf("%d requests of %d", seen, n)
		}
	})
}
