package items

import (
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestElementsOracle splits arrays as encoding/json would.
func TestElementsOracle(t *testing.T) {
	values := rapid.SliceOf(rapid.SampledFrom([]string{`1`, `"a,]}\\\""`, `{"a": [1, {"b": "]"}]}`, `[]`, `[[], {}]`,
		`null`, `"\\"`, `{"}": "{"}`}))
	spaces := rapid.SampledFrom([]string{"", " ", "\n\t "})
	rapid.Check(t, func(t *rapid.T) {
		list := values.Draw(t, "values")
		text := spaces.Draw(t, "before") + "["
		for i, v := range list {
			if i > 0 {
				text += ","
			}
			text += spaces.Draw(t, "left") + v + spaces.Draw(t, "right")
		}
		s, err := Open(t.Context(), strings.NewReader(text+"]"+spaces.Draw(t, "behind")), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		got, err := New(s.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range list {
			it, err := got.Next()
			if err != nil || string(it.Text) != v || it.Number != uint64(i+1) {
				t.Fatalf("element %d is %q (%v), want %q", it.Number, it.Text, err, v)
			}
		}
		if it, err := got.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last there is %q (%v)", it.Text, err)
		}
	})
}
