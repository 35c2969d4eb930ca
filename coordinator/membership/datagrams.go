package membership

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// silentPings is the number of unanswered UDP pings in a row after which UDP to a peer that answers by other means is
// taken to be blocked. On a link that loses 1 % of packets each way, a ping fails with a probability of 2 %, and three
// in a row with 8 in a million.
const silentPings = 3

// datagrams finds out whether UDP reaches each peer. memberlist hides blocked UDP: it retries a failed ping over TCP
// and through other members, and gossip continues, slower, by TCP exchanges alone. memberlist only logs a line for each
// failed ping and calls back for each direct answer. Both happen on its goroutines, some of which hold its locks, so
// nothing here may call memberlist.
type datagrams struct {
	blocked chan string // names of peers to warn about; when full, the next failure tries again

	mu     sync.Mutex
	silent map[string]int // unanswered pings in a row, by peer's name
	said   map[string]bool
}

func newDatagrams() *datagrams {
	return &datagrams{blocked: make(chan string, 16), silent: map[string]int{}, said: map[string]bool{}}
}

// What memberlist v0.7 logs. A test with blocked UDP fails if these lines change.
const (
	linePingFailed = "Failed UDP ping: "
	lineSuspect    = "Suspect "
)

// line parses one line of memberlist's log.
func (d *datagrams) line(line string) {
	if _, rest, ok := strings.Cut(line, linePingFailed); ok {
		if name, ok := strings.CutSuffix(rest, " (timeout reached)"); ok {
			d.failed(name)
		}
		return
	}
	if _, rest, ok := strings.Cut(line, lineSuspect); ok {
		if name, ok := strings.CutSuffix(rest, " has failed, no acks received"); ok {
			d.forget(name)
		}
	}
}

// failed counts an unanswered ping.
func (d *datagrams) failed(peer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent[peer]++
	if d.silent[peer] < silentPings || d.said[peer] {
		return
	}
	select {
	case d.blocked <- peer:
		d.said[peer] = true
	default:
	}
}

// forget resets a peer's count. The peer does not answer by any means, so its silence says nothing about UDP.
func (d *datagrams) forget(peer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.silent, peer)
}

// drop forgets all about a peer: it is gone, or has answered over UDP.
func (d *datagrams) drop(peer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.silent, peer)
	delete(d.said, peer)
}

// AckPayload returns nil: answers carry no payload.
func (d *datagrams) AckPayload() []byte { return nil }

// NotifyPingComplete is called for each ping that was answered directly, over UDP.
func (d *datagrams) NotifyPingComplete(peer *memberlist.Node, _ time.Duration, _ []byte) {
	d.drop(peer.Name)
}
