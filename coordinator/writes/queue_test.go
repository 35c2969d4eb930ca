package writes

import (
	"slices"
	"testing"
)

// A task can be extended while it is the newest and has not begun: what is added neither overtakes another task nor is
// forgotten.
func TestExtend(t *testing.T) {
	var q Queue
	var does []string
	first, start := q.Push(func() { does = append(does, "first") })
	if !start {
		t.Error("no goroutine works on the first task")
	}
	extend := func(number int, with string) bool {
		return q.Extend(number, func() { does = append(does, with) })
	}
	if !extend(first, "more of the first") {
		t.Error("the newest task cannot be extended")
	}
	second, start := q.Push(func() { does = append(does, "second") })
	if start || extend(first, "overtaking the second") {
		t.Error("a task is extended although another is behind it")
	}
	q.Pop()()
	if !extend(second, "more of the second") {
		t.Error("the newest task cannot be extended after the one before it has begun")
	}
	q.Pop()()
	if extend(second, "late") || q.Pop() != nil || extend(second, "after the end") {
		t.Error("a task that has begun is extended")
	}
	if want := []string{"more of the first", "first", "more of the second", "second"}; !slices.Equal(does, want) {
		t.Errorf("done: %q, want %q", does, want)
	}
}
