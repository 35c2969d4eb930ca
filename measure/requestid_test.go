package measure

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// uuid is the strictest form that validators ask for: version 4, of the variant of RFC 9562.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestIDsAreUUIDs(t *testing.T) {
	// printf quick-20261126T173913Z-32d2d5 | sha256sum | head -c 8
	const want = "73d8c464-0003-4002-8000-00000000002a"
	if got := RequestIDsOf("quick-20261126T173913Z-32d2d5", 3).String(42, 2); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := RequestIDsOf(rapid.String().Draw(t, "run"), rapid.Uint32Range(0, 9_999).Draw(t, "stage"))
		index, turn := rapid.Uint64Range(0, 1<<56-1).Draw(t, "index"), rapid.IntRange(0, 65_535).Draw(t, "turn")
		id := s.String(index, turn)
		if !uuid.MatchString(id) {
			t.Errorf("%d, %d: %s is not a UUID", index, turn, id)
		}
		digits := strings.ReplaceAll(id, "-", "")
		i, err1 := strconv.ParseUint(digits[18:], 16, 64)
		n, err2 := strconv.ParseUint(digits[17:18]+digits[13:16], 16, 64)
		if i != index || n != uint64(turn) || err1 != nil || err2 != nil {
			t.Errorf("%s: %d, %d, want %d, %d", id, i, n, index, turn)
		}
		if other := RequestIDsOf("another", 10_000).String(index, turn); id[:13] == other[:13] {
			t.Errorf("%s is another stage's, too", id)
		}
	})
}

func TestAppendDoesNotAllocate(t *testing.T) {
	s, b := RequestIDsOf("run", 1), make([]byte, 0, 36)
	if n := testing.AllocsPerRun(100, func() { b = s.Append(b[:0], 1<<40, 5) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTraceparent(t *testing.T) {
	id, b := RequestIDsOf("quick-20261126T173913Z-32d2d5", 3).String(42, 2), make([]byte, 0, 64)
	const want = "00-73d8c4640003400280000000000000" + "2a-800000000000002a-01"
	if n := testing.AllocsPerRun(100, func() { b = AppendTraceparent(b[:0], id) }); string(b) != want || n > 0 {
		t.Errorf("%s after %v allocations, want %s", b, n, want)
	}
	if Traced(map[string]string{"TraceParent": ""}) || !Traced(map[string]string{"tracestate": "a=b"}) {
		t.Error("the plan's header does not decide")
	}
}
