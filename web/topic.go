package web

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/internal/lists"
)

// part is a piece of a page that changes.
type part struct {
	Part
	event   []byte // the same as a server-sent event
	version uint64 // of the topic when it changed last
}

// topic holds the newest state of a page that changes, for any number of viewers. Each viewer takes the parts that have
// changed since it last looked, so that a slow viewer skips states, and keeps nothing for it.
type topic struct {
	mu      sync.Mutex
	parts   []part
	state   any    // what the parts show
	version uint64 // 0: nothing was published
	over    bool   // nothing more will be published
	err     error  // why nothing was
	more    chan struct{}

	viewer   string // who watched first
	watchers int    // guarded by topics.mu
	cancel   context.CancelFunc
}

// publish replaces the parts whose contents differ. over: nothing follows.
func (t *topic) publish(state any, parts []Part, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	for _, p := range parts {
		i := slices.IndexFunc(t.parts, func(old part) bool { return old.ID == p.ID })
		if i < 0 {
			i, t.parts = len(t.parts), append(t.parts, part{})
		}
		if t.parts[i].version == 0 || !bytes.Equal(t.parts[i].HTML, p.HTML) {
			t.parts[i] = part{p, event("", "part", append([]byte(p.ID+"\n"), p.HTML...)), t.version}
		}
	}
	t.state, t.over = state, over
	t.wake()
}

// fail ends a topic with a status, and makes room for another one of its page.
func (s *topics) fail(t *topic, err error) {
	s.mu.Lock()
	for path, other := range s.list {
		if other == t {
			delete(s.list, path)
		}
	}
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	t.wake()
}

func (t *topic) wake() {
	close(t.more)
	t.more = make(chan struct{})
}

// news is what is new in a topic.
type news struct {
	parts   []part
	state   any
	version uint64
	over    bool
	err     error
	more    <-chan struct{} // closed when there is something newer
}

// after returns the parts that changed after a version.
func (t *topic) after(version uint64) news {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := news{version: t.version, state: t.state, over: t.over, err: t.err, more: t.more}
	n.parts = lists.Where(t.parts, func(p part) bool { return p.version > version })
	return n
}

// linger is how long a topic without viewers is kept: a browser asks for a page, and then for its events.
const linger = 5 * time.Second

// topics are the topics that have viewers, by the paths of their pages.
type topics struct {
	most    int // how many there may be
	mu      sync.Mutex
	list    map[string]*topic
	running sync.WaitGroup
	closed  bool
}

// maxTopics is how many topics there are at most: pages of runs, of each stage that is watched, and of all runs.
const maxTopics = 64

// errTopics and errClosing are why a page cannot be watched.
var (
	errTopics  = status.Error(codes.ResourceExhausted, "too many different pages are being watched: try again later")
	errClosing = status.Error(codes.Unavailable, "the server is closing")
)

// watch returns the topic of a page. The first viewer starts produce, which publishes to the topic until its context
// ends. The caller calls release. Its error is a status: errTopics if there are too many topics, or more than a quarter
// of the most that there may be are of this viewer.
func (s *topics) watch(
	path, viewer string, produce func(context.Context, *topic),
) (t *topic, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosing
	}
	t = s.list[path]
	if t == nil {
		if len(s.list) >= s.most || s.of(viewer) >= max(1, s.most/4) {
			return nil, nil, errTopics
		}
		if s.list == nil {
			s.list = map[string]*topic{}
		}
		t = s.begin(produce)
		t.viewer, s.list[path] = viewer, t
	}
	t.watchers++
	var once sync.Once
	return t, func() { once.Do(func() { s.leave(path, t) }) }, nil
}

// of returns how many topics are there because of a viewer. s.mu is held.
func (s *topics) of(viewer string) (count int) {
	for _, t := range s.list {
		if t.viewer == viewer {
			count++
		}
	}
	return count
}

// begin starts a topic. s.mu is held.
func (s *topics) begin(produce func(context.Context, *topic)) *topic {
	ctx, cancel := context.WithCancel(context.Background())
	t := &topic{more: make(chan struct{}), cancel: cancel}
	s.running.Go(func() { produce(ctx, t) })
	return t
}

// leave removes a viewer. The last one leaves after some time, in which another may come.
func (s *topics) leave(path string, t *topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.watchers > 1 || s.closed {
		t.watchers--
		return
	}
	time.AfterFunc(linger, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.watchers--; t.watchers == 0 {
			s.drop(path, t)
		}
	})
}

// drop ends a topic. s.mu is held.
func (s *topics) drop(path string, t *topic) {
	t.cancel()
	if s.list[path] == t {
		delete(s.list, path)
	}
}

// close ends all topics and waits for them.
func (s *topics) close() {
	s.mu.Lock()
	s.closed = true
	for path, t := range s.list {
		s.drop(path, t)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Bounds on what one viewer can ask for: a quarter of what all can. Behind a proxy all viewers without a token are one.
const (
	viewerConnections = maxConnections / 4
	viewerStreams     = maxStreams / 4
)

// viewers counts what each viewer holds.
type viewers struct {
	mu   sync.Mutex
	held map[string]int
}

// take counts one more for a viewer, and reports whether there may be one more. The caller calls give if so.
func (v *viewers) take(viewer string, most int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held[viewer] >= most {
		return false
	}
	if v.held == nil {
		v.held = map[string]int{}
	}
	v.held[viewer]++
	return true
}

// give counts one less.
func (v *viewers) give(viewer string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held[viewer]--; v.held[viewer] == 0 {
		delete(v.held, viewer)
	}
}

// viewerOf returns whose a request is: the holder of a token or certificate, or else an address.
func (s *Server) viewerOf(r *http.Request) string {
	if ctx, ok := s.rights.writer(r); ok {
		if caller := access.CallerOf(ctx); caller.String() != "" {
			return caller.String()
		}
	}
	return hostOf(address(r.RemoteAddr))
}

// hostOf returns the address of a host without the port. IPv6 addresses of one network of 64 bits are one.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}

// fairListener closes the connections of an address beyond those that it may have, so that the others are served.
type fairListener struct {
	net.Listener
	most  int
	conns viewers
}

// Accept returns the next connection of an address that has room for it.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if host := hostOf(c.RemoteAddr()); l.conns.take(host, l.most) {
			return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.conns.give(host) })}, nil
		}
		_ = c.Close() // nothing was said on it
	}
}

// countedConn is a connection that is counted until it is closed.
type countedConn struct {
	net.Conn
	closed func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
