package files

import (
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// Limits say what may stay. 0 means no limit.
type Limits struct {
	// Age is the longest time since an item's last use.
	Age time.Duration
	// Bytes is the most space that all items may take up together.
	Bytes uint64
	// Count is the most items that stay, besides those that are held.
	Count int
}

// Item is a thing that takes up space.
type Item struct {
	// Name of the item.
	Name string
	// Bytes that the item takes up.
	Bytes uint64
	// Used is the time of its last use.
	Used time.Time
	// Held says that the item is in use: it stays. Its space is counted, the item itself is not.
	Held bool
}

// Excess returns the items that must go, the least recently used first. It goes through all items from the newest to
// the oldest. An item goes if it is too old, or if it exceeds the number or the space together with those that stay. A
// held item always stays. Its space is counted before any other's, but it takes none of the number: a run that has just
// ended must not go because another one is in progress.
func (l Limits) Excess(items []Item, now time.Time) []Item {
	order := slices.Clone(items)
	slices.SortStableFunc(order, func(a, b Item) int { return b.Used.Compare(a.Used) })
	var bytes uint64
	count := 0
	for _, i := range order {
		if i.Held {
			bytes += i.Bytes
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

// SizeOf returns the total size of the files in a directory, in bytes. Files that cannot be read are not counted.
func SizeOf(dir string) (bytes uint64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // not counted
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += uint64(info.Size())
		}
		return nil
	})
	return bytes
}
