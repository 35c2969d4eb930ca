package torture

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Link forwards TCP connections to an address, and can get worse while doing so. Its methods are safe for concurrent
// use. Overlapping faults of one kind add up, and end with the last one.
type Link struct {
	listener *net.TCPListener
	to       *net.TCPAddr
	all      sync.WaitGroup

	mu     sync.Mutex
	open   map[*wire]bool
	held   int
	waits  []way // active delays
	slow   []int // active limits, in bytes per second
	change chan struct{}
	closed bool
}

// way is how long bytes take.
type way struct{ delay, jitter time.Duration }

// Listen returns a link to an address, on a free port of loopback. The caller closes it.
func Listen(to string) (*Link, error) {
	target, err := net.ResolveTCPAddr("tcp", to)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	k := &Link{listener: l, to: target, open: map[*wire]bool{}, change: make(chan struct{})}
	k.all.Go(k.accept)
	return k, nil
}

// Address returns the address on which the link listens.
func (k *Link) Address() string { return k.listener.Addr().String() }

// Close cuts all connections and accepts no more. It waits until all goroutines have ended.
func (k *Link) Close() error {
	k.update(func() { k.closed = true })
	err := k.listener.Close()
	k.Reset()
	k.all.Wait()
	return err
}

// update changes the link's state and wakes those who wait for a change.
func (k *Link) update(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	close(k.change)
	k.change = make(chan struct{})
}

// Hold stops all bytes until the returned function is called. Connections stay open, as when a network is cut. What is
// sent meanwhile arrives afterwards, as with TCP's retransmissions.
func (k *Link) Hold() (release func()) {
	k.update(func() { k.held++ })
	return func() { k.update(func() { k.held-- }) }
}

// Delay delays each byte until the returned function is called.
func (k *Link) Delay(delay, jitter time.Duration) (end func()) {
	return during(k, &k.waits, way{delay, jitter})
}

// Limit limits each direction of each connection to that many bytes per second, until the returned function is called.
func (k *Link) Limit(bytesPerSecond int) (end func()) { return during(k, &k.slow, bytesPerSecond) }

// during adds a value to the active ones, and returns a function that removes it.
func during[T comparable](k *Link, of *[]T, v T) (end func()) {
	k.update(func() { *of = append(*of, v) })
	return func() {
		k.update(func() {
			for i, other := range *of {
				if other == v {
					*of = append((*of)[:i:i], (*of)[i+1:]...)
					return
				}
			}
		})
	}
}

// Reset breaks all connections at once.
func (k *Link) Reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for w := range k.open {
		w.cut()
	}
}

// accept accepts connections until the link is closed.
func (k *Link) accept() {
	for {
		c, err := k.listener.AcceptTCP()
		if err != nil {
			return
		}
		w := &wire{link: k, near: c, broken: make(chan struct{})}
		k.mu.Lock()
		k.open[w] = true
		refuse := k.closed
		k.mu.Unlock()
		if refuse {
			w.cut()
		}
		k.all.Go(func() {
			w.carry()
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.open, w)
		})
	}
}

// passable returns how long a piece of that many bytes takes, and a channel that is closed when that may have changed.
// passes is false while nothing passes.
func (k *Link) passable(bytes int) (delay, pace time.Duration, passes bool, changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.waits {
		delay += w.delay
		if w.jitter > 0 {
			delay += time.Duration(rand.Int64N(int64(2*w.jitter))) - w.jitter
		}
	}
	for _, s := range k.slow {
		pace = max(pace, time.Duration(bytes)*time.Second/time.Duration(s))
	}
	return delay, pace, k.held == 0, k.change
}

// wire is one connection over the link.
type wire struct {
	link *Link
	near *net.TCPConn

	mu     sync.Mutex
	far    *net.TCPConn
	once   sync.Once
	broken chan struct{}
}

// cut ends the connection with a reset on both sides.
func (w *wire) cut() {
	w.once.Do(func() { close(w.broken) })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range []*net.TCPConn{w.near, w.far} {
		if c != nil {
			_ = c.SetLinger(0) // it may be closed already, as may the next
			_ = c.Close()
		}
	}
}

// carry connects as soon as bytes can pass, and forwards bytes in both directions until both have ended.
func (w *wire) carry() {
	defer w.cut()
	if !w.await() {
		return
	}
	c, err := net.DialTCP("tcp", nil, w.link.to)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.far = c
	w.mu.Unlock()
	select {
	case <-w.broken:
		return // before there was anything to break
	default:
	}
	for _, c := range []*net.TCPConn{w.near, w.far} {
		_ = c.SetReadBuffer(buffer) // so that senders notice a slow link
	}
	var both sync.WaitGroup
	both.Go(func() { w.pump(w.near, w.far) })
	both.Go(func() { w.pump(w.far, w.near) })
	both.Wait()
}

const (
	buffer = 64 << 10
	piece  = 4 << 10
)

// await blocks until bytes can pass, and reports whether the connection is still open.
func (w *wire) await() bool {
	for {
		_, _, passes, changed := w.link.passable(0)
		if passes {
			return true
		}
		select {
		case <-changed:
		case <-w.broken:
			return false
		}
	}
}

// chunk is a piece in flight. Empty: the end.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pump forwards bytes in one direction until they end.
func (w *wire) pump(from, to *net.TCPConn) {
	pieces := make(chan chunk, 256)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c := range pieces {
			if !w.pass(c, to) {
				w.cut()
				break
			}
		}
		for range pieces { // the reader must not block
		}
	}()
	for {
		b := make([]byte, piece)
		n, err := from.Read(b)
		delay, _, _, _ := w.link.passable(n)
		if n > 0 {
			pieces <- chunk{b[:n], time.Now().Add(delay)}
		}
		if errors.Is(err, io.EOF) {
			pieces <- chunk{nil, time.Now().Add(delay)}
		} else if err != nil {
			w.cut()
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	<-done
}

// pass writes a piece when it is due and the link lets it pass, and reports whether it succeeded.
func (w *wire) pass(c chunk, to *net.TCPConn) bool {
	_, pace, _, _ := w.link.passable(len(c.bytes))
	select {
	case <-time.After(max(time.Until(c.due), pace)):
	case <-w.broken:
		return false
	}
	if !w.await() {
		return false
	}
	if c.bytes == nil {
		return to.CloseWrite() == nil
	}
	_, err := to.Write(c.bytes)
	return err == nil
}
