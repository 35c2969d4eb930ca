package workload

import (
	"encoding/json"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/workload/draw"
)

// message is a message in the form that tests compare: its tokens one by one, as words or numbers.
type message struct {
	role   string
	tokens []string
}

// parsePrompt reads a prompt of any form as messages. Text and token ids are one user message.
func parsePrompt(t rapid.TB, prompt []byte, form Form) []message {
	t.Helper()
	var err error
	var out []message
	switch form {
	case Text:
		var text string
		err = json.Unmarshal(prompt, &text)
		out = []message{{"user", strings.Split(text, " ")}}
	case TokenIDs:
		var ids []uint32
		err = json.Unmarshal(prompt, &ids)
		one := message{role: "user"}
		for _, id := range ids {
			one.tokens = append(one.tokens, strconv.Itoa(int(id)))
		}
		out = []message{one}
	case Messages:
		var messages []struct{ Role, Content string }
		err = json.Unmarshal(prompt, &messages)
		for _, m := range messages {
			out = append(out, message{m.Role, strings.Split(m.Content, " ")})
		}
	}
	if err != nil {
		t.Fatalf("%v: %.200q", err, prompt)
	}
	return out
}

// text returns the text of the message.
func (s message) text() string { return strings.Join(s.tokens, " ") }

// flat returns all tokens.
func flat(all []message) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.tokens...)
	}
	return out
}

// drawn returns tokens from to from+n-1 of a sequence, one by one.
func drawn(v *vocabulary, form Form, s draw.Sequence, from, n uint64) []string {
	out := make([]string, 0, n)
	for i := from; i < from+n; i++ {
		out = append(out, string(v.append(nil, form, s, i, 1, false)))
	}
	return out
}

// alike returns how many first tokens two prompts have in common.
func alike(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
