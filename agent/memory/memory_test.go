package memory

import "testing"

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         3200,
		4 << 20:   3200,
		10 << 20:  1280,
		100 << 20: 120,
		128 << 20: 100,
		256 << 20: 50,
		4 << 30:   25,
	} {
		if got := percentOf(live); got != want {
			t.Errorf("%d bytes: %d %%, want %d %%", live, got, want)
		}
	}
}
