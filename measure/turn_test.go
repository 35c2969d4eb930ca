package measure

import (
	"math"
	"testing"
)

// TestTurnClasses: each turn is in the class whose turns it lies between, and classes follow one another without gaps.
func TestTurnClasses(t *testing.T) {
	next := uint32(0)
	for class := range TurnClasses {
		first, last := TurnsOf(class)
		if first != next || last < first {
			t.Fatalf("class %d has turns %d to %d, want it to start at %d", class, first, last, next)
		}
		for _, turn := range []uint32{first, first + (last-first)/2, last} {
			if got := TurnClass(turn); got != class {
				t.Fatalf("turn %d is in class %d, want %d", turn, got, class)
			}
		}
		next = last + 1
	}
	if next != 0 || TurnClass(math.MaxUint32) != TurnClasses-1 {
		t.Fatalf("the last class ends before turn %d", next)
	}
}
