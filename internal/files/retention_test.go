package files

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestExcess(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ago := func(name string, hours int, bytes uint64) Item {
		return Item{Name: name, Bytes: bytes, Used: now.Add(-time.Duration(hours) * time.Hour)}
	}
	held := func(i Item) Item { i.Held = true; return i }
	items := []Item{ago("b", 2, 10), ago("a", 1, 10), ago("d", 4, 1), ago("c", 3, 10)}
	for name, c := range map[string]struct {
		limits Limits
		items  []Item
		want   []string
	}{
		"no limit":                 {Limits{}, items, nil},
		"age":                      {Limits{Age: 3 * time.Hour}, items, []string{"d"}},
		"count":                    {Limits{Count: 2}, items, []string{"d", "c"}},
		"bytes: a small one stays": {Limits{Bytes: 21}, items, []string{"c"}},
		"all": {Limits{Age: 90 * time.Minute, Count: 3, Bytes: 100}, items,
			[]string{"d", "c", "b"}},
		"held is old and stays": {Limits{Age: time.Hour, Bytes: 9}, []Item{held(ago("old", 9, 5)), ago("new", 0, 5)},
			[]string{"new"}},
		"held is not counted": {Limits{Count: 1}, []Item{held(ago("in progress", 0, 5)), ago("ended", 1, 5), ago("before", 2, 5)},
			[]string{"before"}},
		"larger than all room": {Limits{Bytes: 5}, []Item{ago("large", 1, 6)}, []string{"large"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, i := range c.limits.Excess(c.items, now) {
				got = append(got, i.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v go, want %v", got, c.want)
			}
		})
	}
}

// What stays is within the limits, except for held items, and no held item goes.
func TestWhatStaysKeepsTheLimits(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{
			Age:   time.Duration(rapid.IntRange(0, 50).Draw(t, "age")) * time.Hour,
			Bytes: rapid.Uint64Range(0, 200).Draw(t, "bytes"), Count: rapid.IntRange(0, 6).Draw(t, "count"),
		}
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
			return Item{
				Bytes: rapid.Uint64Range(0, 90).Draw(t, "size"),
				Used:  now.Add(-time.Duration(rapid.IntRange(0, 99).Draw(t, "ago")) * time.Hour),
				Held:  rapid.Bool().Draw(t, "held"),
			}
		}), 0, 12).Draw(t, "items")
		for i := range items {
			items[i].Name = string(rune('a' + i))
		}
		gone := l.Excess(items, now)
		bytes, count, heldBytes := uint64(0), 0, uint64(0)
		for _, i := range items {
			switch {
			case i.Held:
				heldBytes += i.Bytes
				if slices.Contains(gone, i) {
					t.Fatalf("%v is held and goes", i)
				}
			case !slices.Contains(gone, i):
				bytes, count = bytes+i.Bytes, count+1
				if l.Age > 0 && now.Sub(i.Used) > l.Age {
					t.Fatalf("%v is too old and stays", i)
				}
			}
		}
		if l.Count > 0 && count > l.Count || l.Bytes > 0 && bytes > 0 &&
			bytes+heldBytes > l.Bytes {
			t.Fatalf("%d items of %d bytes stay beside %d bytes that are held: limits %+v", count, bytes, heldBytes, l)
		}
	})
}
