// Package retention says which of many things that take room are to go: the oldest beyond a time, a number or a size,
// and how large they are. It removes nothing.
package retention

import (
	"slices"
	"time"
)

// Limits say what may stay. A limit of 0 is none.
type Limits struct {
	// Age is how long ago a thing may have been used last.
	Age time.Duration
	// Bytes is the room that all of them may take together.
	Bytes uint64
	// Count is how many there may be.
	Count int
}

// Item is a thing that takes room.
type Item struct {
	// Name of it.
	Name string
	// Bytes that it takes.
	Bytes uint64
	// Used is when it was used last.
	Used time.Time
	// Held says that it is in use: it counts and stays.
	Held bool
}

// Excess returns the items that are to go, the one that was used longest ago first. It goes through all of them from
// the newest on: an item goes if it is too old, or if it is one too many or too large beside those that stay. An item
// that is held stays in any case, and its room is taken before any other's.
func (l Limits) Excess(items []Item, now time.Time) []Item {
	order := slices.Clone(items)
	slices.SortStableFunc(order, func(a, b Item) int { return b.Used.Compare(a.Used) })
	var bytes uint64
	count := 0
	for _, i := range order {
		if i.Held {
			bytes, count = bytes+i.Bytes, count+1
		}
	}
	var out []Item
	for _, i := range order {
		switch {
		case i.Held:
		case l.Age > 0 && now.Sub(i.Used) > l.Age, l.Count > 0 && count >= l.Count, l.Bytes > 0 &&
			bytes+i.Bytes > l.Bytes:
			out = append(out, i)
		default:
			bytes, count = bytes+i.Bytes, count+1
		}
	}
	slices.Reverse(out)
	return out
}
