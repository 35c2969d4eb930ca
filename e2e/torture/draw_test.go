package torture

import "testing"

func TestShow(t *testing.T) {
	n := map[bool]int{}
	for s := uint64(1); s <= 200; s++ {
		d := Draw(s)
		if !d.Messages {
			n[d.Promised()]++
		}
		if s < 25 {
			t.Log(s, d.Promised(), d)
		}
	}
	t.Log(n)
}
