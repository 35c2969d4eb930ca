package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Unused counts the members of rows that no request uses, by name.
type Unused struct {
	counts map[string]uint64
	others uint64 // rows with names beyond maxUnused
}

// maxUnused is the maximum number of names that are kept: a file may have a new name in each row.
const maxUnused = 32

// note counts a member of a row.
func (u *Unused) note(name string) {
	if _, known := u.counts[name]; !known && len(u.counts) >= maxUnused {
		u.others++
		return
	}
	if u.counts == nil {
		u.counts = map[string]uint64{}
	}
	u.counts[strings.Clone(name)]++
}

// String lists the names, most frequent first. Empty: everything was used.
func (u *Unused) String() string {
	names := slices.SortedFunc(maps.Keys(u.counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(u.counts[b], u.counts[a]), strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%.64s (%d)", name, u.counts[name])
	}
	if u.others > 0 {
		names = append(names, fmt.Sprintf("others (%d)", u.others))
	}
	return strings.Join(names, ", ")
}
