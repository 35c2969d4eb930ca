package membership

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// silentPings is after how many UDP pings without an answer, one after the other, a peer that is alive by other means
// is said to have its UDP blocked. On a link that loses 1 % of packets each way, a ping is lost with 2 %, and three in
// a row with 8 in a million.
const silentPings = 3

// datagrams finds out whether UDP reaches each peer. memberlist hides that it does not: a ping that fails is tried over
// TCP and over others, and gossip goes on, slower, by TCP exchanges alone. What it tells is a line of its log for each
// failure, and a call for each direct answer. Both come from its goroutines, some of which hold its locks, so nothing
// here calls back.
type datagrams struct {
	blocked chan string // names of peers to speak about; when full, the next failure tries again

	mu     sync.Mutex
	silent map[string]int // pings in a row without an answer, by peer's name
	said   map[string]bool
}

func newDatagrams() *datagrams {
	return &datagrams{blocked: make(chan string, 16), silent: map[string]int{}, said: map[string]bool{}}
}

// What memberlist v0.7 logs. A test with UDP blocked fails if it ever says it otherwise.
const (
	linePingFailed = "Failed UDP ping: "
	lineSuspect    = "Suspect "
)

// line reads one line of memberlist's log.
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

// failed counts a ping without an answer.
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

// forget starts a peer's count anew: it does not answer by any means, so its silence says nothing about UDP.
func (d *datagrams) forget(peer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.silent, peer)
}

// drop forgets a peer that is gone.
func (d *datagrams) drop(peer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.silent, peer)
	delete(d.said, peer)
}

// AckPayload adds nothing to answers.
func (d *datagrams) AckPayload() []byte { return nil }

// NotifyPingComplete is called for each ping that was answered directly, over UDP.
func (d *datagrams) NotifyPingComplete(peer *memberlist.Node, _ time.Duration, _ []byte) {
	d.drop(peer.Name)
}

// sayBlocked warns about one peer.
func sayBlocked(log *slog.Logger, self string, peer Member) {
	log.Warn("UDP is blocked between this member and another: gossip works over TCP, slower; open UDP both ways",
		"from", self, "to", peer.Gossip, "member", peer.Process)
}
