package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spate-load/spate/api"
)

// frameOf returns a frame with the given number of ids and the given number of tokens so far.
func frameOf(text string, ids, tokens int, finish string) string {
	list := slices.Repeat([]int{7}, ids)
	return fmt.Sprintf(`{"text":%q,"output_ids":[%s],"meta_info":{"finish_reason":%s,"completion_tokens":%d}}`, text,
		joined(list), finish, tokens)
}

func joined(ids []int) (s string) {
	for i, id := range ids {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(id)
	}
	return s
}

// TestSGLangText checks what each frame adds, for all server settings. If a text equals the previous one, only the ids
// show which setting the server has.
func TestSGLangText(t *testing.T) {
	const length, stop = `{"type":"length","length":3}`, `{"type":"stop","matched":2}`
	for name, tt := range map[string]struct {
		frames []string
		want   []string
	}{
		"all so far": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("ab", 2, 2, "null"), frameOf("abb", 3, 3, length)},
			[]string{"a", "b", "b"},
		},
		"all so far, a token without text": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("a", 2, 2, "null"), frameOf("ab", 3, 3, length)},
			[]string{"a", "", "b"},
		},
		"all so far, more ids than tokens": {
			[]string{frameOf("a", 2, 1, "null"), frameOf("a", 3, 2, "null")}, []string{"a", ""},
		},
		"all so far, without ids": {
			[]string{`{"text":"a","meta_info":{"completion_tokens":1}}`,
				`{"text":"a","meta_info":{"completion_tokens":2}}`}, []string{"a", ""},
		},
		"new text": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("b", 1, 2, "null"), frameOf("b", 1, 3, length)},
			[]string{"a", "b", "b"},
		},
		"new text, the first twice": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("a", 1, 2, "null"), frameOf("a", 1, 3, length)},
			[]string{"a", "a", "a"},
		},
		"new text of several tokens": {
			[]string{frameOf("aa", 2, 2, "null"), frameOf("aa", 2, 4, "null")}, []string{"aa", "aa"},
		},
		"new text, nothing new": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("", 0, 1, "null"), frameOf("a", 1, 2, "null")},
			[]string{"a", "", "a"},
		},
		"new text, the end of a sequence": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("", 1, 2, stop)}, []string{"a", ""},
		},
		"new ids, all of the text so far": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("ab", 1, 2, "null"), frameOf("ab", 1, 3, "null"),
				frameOf("abc", 1, 4, length)}, []string{"a", "b", "", "c"},
		},
		"new ids, all of the text so far, one token and the end of a sequence": {
			[]string{frameOf("a", 1, 1, "null"), frameOf("a", 1, 2, stop)}, []string{"a", ""},
		},
	} {
		var g api.Growth
		for i, data := range tt.frames {
			var f api.Frame
			if err := parseSGLang(api.Event{Data: []byte(data)}, &f); err != nil {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
			if got := string(g.Added(f.Answer, f.Span)); got != tt.want[i] {
				t.Errorf("%s: frame %d adds %q, want %q", name, i, got, tt.want[i])
			}
		}
	}
}
