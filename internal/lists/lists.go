// Package lists makes lists, counts and sums from lists.
package lists

import "iter"

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

// First returns the first value for which is holds, nil if there is none.
func First[V any](values []V, is func(*V) bool) *V {
	for i := range values {
		if is(&values[i]) {
			return &values[i]
		}
	}
	return nil
}

// Find returns the first value for which is holds, a zero value if there is none.
func Find[V any](values []V, is func(V) bool) (found V) {
	for _, v := range values {
		if is(v) {
			return v
		}
	}
	return found
}

// Refs yields a pointer to each value.
func Refs[V any](values []V) iter.Seq[*V] {
	return func(yield func(*V) bool) {
		for i := range values {
			if !yield(&values[i]) {
				return
			}
		}
	}
}

// Known returns what f knows of each value: nil is left out.
func Known[From, To any](values []From, f func(From) *To) (known []To) {
	for _, v := range values {
		if of := f(v); of != nil {
			known = append(known, *of)
		}
	}
	return known
}

// Set returns a map in which each key is true.
func Set[K comparable](keys []K) map[K]bool {
	set := make(map[K]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set
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
