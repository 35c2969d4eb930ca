package wire

import "sync"

// idle holds the idle connections of a pool by where they lead. The one used last is taken first. It is safe for
// concurrent use. The zero value is ready for use.
type idle[K comparable, C any] struct {
	mu    sync.Mutex
	conns map[K][]C
}

// take removes and returns an idle connection. False: there is none.
func (i *idle[K, C]) take(to K) (c C, ok bool) {
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

// put adds an idle connection.
func (i *idle[K, C]) put(to K, c C) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.conns == nil {
		i.conns = make(map[K][]C)
	}
	i.conns[to] = append(i.conns[to], c)
}
