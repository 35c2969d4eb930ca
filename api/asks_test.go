package api

import (
	"reflect"
	"testing"
)

func TestMergeKeepsWhatBothHave(t *testing.T) {
	own := map[string]any{"a": map[string]any{"x": 1}, "b": 2}
	body := map[string]any{"a": own["a"], "b": 2}
	Merge(body, map[string]any{"a": map[string]any{"y": 3}, "b": 4, "c": 5})
	want := map[string]any{"a": map[string]any{"x": 1, "y": 3}, "b": 4, "c": 5}
	if !reflect.DeepEqual(body, want) {
		t.Errorf("%v, want %v", body, want)
	}
	if !reflect.DeepEqual(own["a"], map[string]any{"x": 1}) {
		t.Errorf("the object itself was changed: %v", own)
	}
}
