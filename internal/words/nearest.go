package words

import (
	"slices"
	"strings"
)

// Nearest returns the one of names that is so similar to an unknown name that it is probably meant, or "". If none is
// similar, it returns the nearest one that contains the unknown name or is contained in it.
func Nearest(name string, names []string) string {
	if len(names) == 0 || len(name) >= longest {
		return ""
	}
	nearer := func(a, b string) int { return distance(name, a) - distance(name, b) }
	best := slices.MinFunc(names, nearer)
	if distance(name, best) <= max(2, len(best)/3) {
		return best
	}
	apart := func(known string) bool { return !overlap(name, known) }
	if within := slices.DeleteFunc(slices.Clone(names), apart); len(within) > 0 {
		return slices.MinFunc(within, nearer)
	}
	return ""
}

// overlap reports whether one of two names contains the other, of at least 3 letters: two are in many by chance.
func overlap(a, b string) bool {
	a, b = plain(a), plain(b)
	return min(len(a), len(b)) >= 3 && (strings.Contains(a, b) || strings.Contains(b, a))
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

// longest is the length in bytes from which no name is a misspelt field.
const longest = 64

// plain also shortens: only names of about a field's length matter, and a key may be megabytes long.
func plain(name string) string {
	name = name[:min(len(name), longest)]
	return strings.ToLower(joiners.Replace(name))
}

var joiners = strings.NewReplacer("_", "", "-", "")
