package dataset

import "sync"

// pool keeps values for reuse, so that reading does not allocate.
type pool[T any] struct{ sync.Pool }

// get returns a value from the pool, or a new one.
func (p *pool[T]) get() *T {
	if v, ok := p.Get().(*T); ok {
		return v
	}
	return new(T)
}

// put returns a value to the pool.
func (p *pool[T]) put(v *T) { p.Put(v) }
