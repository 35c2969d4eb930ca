// Package nearest finds the name that a person probably meant, among fields of a plan, commands or flags.
package nearest

import (
	"slices"
	"strings"
)

// To returns the one of names that is so similar to an unknown name that it is probably meant, or "".
func To(name string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	best := slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if len(name) < 64 && distance(name, best) <= max(2, len(best)/3) {
		return best
	}
	return ""
}

// distance counts the insertions, deletions and replacements from a to b. It ignores case, dashes and underscores, so
// that "drainTimeout" matches "drain_timeout".
func distance(a, b string) int {
	a, b = plain(a), plain(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// plain also shortens: only names of about a field's length matter, and a key may be megabytes long.
func plain(name string) string {
	name = name[:min(len(name), 64)]
	return strings.ToLower(joiners.Replace(name))
}

var joiners = strings.NewReplacer("_", "", "-", "")
