package workload

import (
	"slices"
	"strings"
	"testing"
)

func TestOwnWords(t *testing.T) {
	list := Words()
	if len(list) != len(words) || !slices.IsSorted(list) {
		t.Errorf("%d words, sorted %v", len(list), slices.IsSorted(list))
	}
	for _, w := range list {
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is not a plain lowercase word", w)
		}
	}
}
