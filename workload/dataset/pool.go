package dataset

import "sync"

// pool keeps values that were used, so that reading does not allocate.
type pool[T any] struct{ sync.Pool }

// get returns a value that was put back, or a new one.
func (p *pool[T]) get() *T {
	if v, ok := p.Get().(*T); ok {
		return v
	}
	return new(T)
}

// put gives a value back.
func (p *pool[T]) put(v *T) { p.Put(v) }
