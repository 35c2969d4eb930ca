package simulator

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is counted by reading bytes is what decoding counts.
func FuzzPromptTokens(f *testing.F) {
	for _, s := range []string{`[1,2,3]`, `[]`, `[ 7 ]`, `"a b\n\u00a0c"`, `[-1]`, `[1.5]`, `[1e3]`, `[[1]]`, `["a"]`, `null`, `{}`, `[true]`, ` [1]`, `""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := json.RawMessage(s)
		if !json.Valid(raw) {
			return
		}
		got, problem := promptTokens(raw)
		var text *string
		var numbers []json.Number
		var values []any
		switch {
		case json.Unmarshal(raw, &text) == nil && text != nil:
			if problem != nil || got != len(strings.Fields(*text)) {
				t.Errorf("%s: %d words, %v", s, got, problem)
			}
		case json.Unmarshal(raw, &values) == nil && len(values) > 0 && onlyIDs(values) && json.Unmarshal(raw, &numbers) == nil && digitsOnly(numbers):
			if problem != nil || got != len(numbers) {
				t.Errorf("%s: %d ids, %v", s, got, problem)
			}
		default:
			if problem == nil {
				t.Errorf("%s: taken as %d tokens", s, got)
			}
		}
	})
}

func onlyIDs(values []any) bool {
	for _, v := range values {
		if _, ok := v.(float64); !ok {
			return false
		}
	}
	return true
}

func digitsOnly(numbers []json.Number) bool {
	for _, n := range numbers {
		if strings.Trim(n.String(), "0123456789") != "" {
			return false
		}
	}
	return true
}

// No body makes the parser panic, and what it accepts is within bounds.
func FuzzParseRequest(f *testing.F) {
	f.Add(fourTokens, true)
	f.Add(`{"model":"m","messages":[{"content":[{"text":"a"}]}],"stream_options":null}`, false)
	c := Default()
	f.Fuzz(func(t *testing.T, body string, text bool) {
		a := chat
		if text {
			a = completions
		}
		q, problem := parseRequest(a, []byte(body), &c)
		if problem != nil {
			return
		}
		if q.model == "" || q.maxTokens < 1 || q.maxTokens > mostTokens || q.minTokens < 0 || q.minTokens > q.maxTokens || q.promptTokens < 0 || q.promptTokens > mostTokens {
			t.Errorf("%s: accepted as %+v", body, q)
		}
	})
}
