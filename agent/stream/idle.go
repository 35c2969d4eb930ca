package stream

import "sync"

// idle are the connections of a pool that wait for a request, by where they go. The one used last is taken first. It is
// safe for concurrent use; the zero value is ready.
type idle[K comparable, C any] struct {
	mu    sync.Mutex
	conns map[K][]C
}

// take returns a connection, false if none waits.
func (i *idle[K, C]) take(to K) (c C, waits bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	conns := i.conns[to]
	n := len(conns) - 1
	if n < 0 {
		return c, false
	}
	i.conns[to] = conns[:n]
	return conns[n], true
}

// put has a connection wait.
func (i *idle[K, C]) put(to K, c C) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.conns == nil {
		i.conns = make(map[K][]C)
	}
	i.conns[to] = append(i.conns[to], c)
}
