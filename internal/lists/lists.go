// Package lists makes lists, counts and sums from lists.
package lists

// Each returns what f makes of each value, nil if there are none.
func Each[From, To any](values []From, f func(From) To) (made []To) {
	for _, v := range values {
		made = append(made, f(v))
	}
	return made
}

// Where returns the values for which keep holds, nil if there are none.
func Where[V any](values []V, keep func(V) bool) (kept []V) {
	for _, v := range values {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// Count returns for how many values is holds.
func Count[V any](values []V, is func(V) bool) (n int) {
	for _, v := range values {
		if is(v) {
			n++
		}
	}
	return n
}

// Sum adds up what f says of each value.
func Sum[V any, N ~int | ~int64 | ~uint32 | ~uint64 | ~float64](values []V, f func(V) N) (sum N) {
	for _, v := range values {
		sum += f(v)
	}
	return sum
}
