package table

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A column has words if a text in it has a letter, or if all are empty; n/a says nothing about it. Rows may be longer
// than the header.
func TestColumnsWithWords(t *testing.T) {
	var got []bool
	for _, c := range Of([]string{"Stage", "Number"}, [][]string{{"1: a", Unknown}, {"2", "3.5", "note"}}).Columns {
		got = append(got, c.Words)
	}
	if diff := cmp.Diff([]bool{true, false, true}, got); diff != "" {
		t.Error(diff)
	}
}

// The last columns go first, but never labels, nor the first column after them.
func TestNarrow(t *testing.T) {
	of := New(Words("a"), Numbers("bb", "ccc"))
	of.Add("1", "2", "3")
	for width, want := range map[int]string{0: "a  bb  ccc", 10: "a  bb  ccc", 9: "a  bb", 1: "a  bb"} {
		if got := of.Lines(width)[0]; got != want {
			t.Errorf("at %d columns %q, want %q", width, got, want)
		}
	}
}
