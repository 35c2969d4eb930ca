package torture

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Link carries TCP connections to an address, and can be made worse while it does. Its methods may be called
// concurrently; faults of one kind that overlap add up, and end when the last one does.
type Link struct {
	listener *net.TCPListener
	to       *net.TCPAddr
	all      sync.WaitGroup

	mu     sync.Mutex
	open   map[*wire]bool
	held   int
	waits  []way // that count now
	slow   []int // bytes a second, that count now
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

// Address is where the link listens.
func (k *Link) Address() string { return k.listener.Addr().String() }

// Close cuts all connections and takes no more. It waits until all has ended.
func (k *Link) Close() error {
	k.update(func() { k.closed = true })
	err := k.listener.Close()
	k.Reset()
	k.all.Wait()
	return err
}

// update changes the link's state and tells those who wait for it.
func (k *Link) update(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
	close(k.change)
	k.change = make(chan struct{})
}

// Hold lets no byte pass until the function it returns is called. Connections stay, as they do when a network is cut;
// what was sent meanwhile arrives afterwards, as TCP sends it again.
func (k *Link) Hold() (release func()) {
	k.update(func() { k.held++ })
	return func() { k.update(func() { k.held-- }) }
}

// Delay holds each byte back, for as long as the function it returns is not called.
func (k *Link) Delay(delay, jitter time.Duration) (end func()) {
	return during(k, &k.waits, way{delay, jitter})
}

// Limit lets so many bytes a second pass each way of each connection, until the function it returns is called.
func (k *Link) Limit(bytesPerSecond int) (end func()) { return during(k, &k.slow, bytesPerSecond) }

// during adds to what counts, and returns what takes it out again.
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

// accept takes connections until the link is closed.
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

// passable returns how long a piece of so many bytes takes, and a channel that is closed when that may have changed. It
// is false while nothing passes.
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
			_ = c.SetLinger(0) // it may be closed already, as for the next
			_ = c.Close()
		}
	}
}

// carry connects, as soon as something passes, and carries bytes both ways until both have ended.
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
		_ = c.SetReadBuffer(buffer) // so that a slow link is slow for those who send
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

// await blocks until something passes, and reports whether the connection stands.
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

// chunk is a piece on its way. Empty: the end.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pump carries bytes one way until their end.
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
		for range pieces { // the reader must not be held up
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

// pass hands a piece over when it is due and the link lets it pass. It reports whether it could.
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
