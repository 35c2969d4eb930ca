package web

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	for _, p := range t.parts {
		if p.version > version {
			n.parts = append(n.parts, p)
		}
	}
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

// once returns a topic for a single look, which counts as none. The caller calls release.
func (s *topics) once(produce func(context.Context, *topic)) (t *topic, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosing
	}
	t = s.begin(produce)
	return t, t.cancel, nil
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
