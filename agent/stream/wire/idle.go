package wire

import (
	"net/url"
	"sync"
)

// origin is where a connection leads.
type origin struct{ scheme, host string }

func originOf(u *url.URL) origin { return origin{u.Scheme, u.Host} }

// idle holds the idle connections of a pool by where they lead. The one used last is taken first. It is safe for
// concurrent use. The zero value is ready for use.
type idle[C any] struct {
	mu    sync.Mutex
	conns map[origin][]C
}

// take removes and returns an idle connection. False: there is none.
func (i *idle[C]) take(to origin) (c C, ok bool) {
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
func (i *idle[C]) put(to origin, c C) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.conns == nil {
		i.conns = make(map[origin][]C)
	}
	i.conns[to] = append(i.conns[to], c)
}
