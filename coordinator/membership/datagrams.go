package membership

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
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

// transport is memberlist's own transport, except that dialing ends with the cluster, so that Close does not wait for
// seeds that never answer.
type transport struct {
	*memberlist.NetTransport
	ctx context.Context
}

// network opens gossip's transport. It lasts as long as ctx.
type network func(ctx context.Context, mc *memberlist.Config) (memberlist.NodeAwareTransport, error)

// bindTries is how often a free port is tried: the port that TCP got may be taken for UDP.
const bindTries = 10

// listen opens the sockets that mc names, and sets the ports that it got in mc.
func listen(ctx context.Context, mc *memberlist.Config) (memberlist.NodeAwareTransport, error) {
	want := &memberlist.NetTransportConfig{BindAddrs: []string{mc.BindAddr}, BindPort: mc.BindPort, Logger: mc.Logger}
	nt, err := memberlist.NewNetTransport(want)
	for try := 1; err != nil && mc.BindPort == 0 && try < bindTries; try++ {
		nt, err = memberlist.NewNetTransport(want)
	}
	if err != nil {
		return nil, fmt.Errorf("membership: gossip cannot start on %s:%d (is the port taken, or the address not "+
			"this machine's?): %w",
			mc.BindAddr, mc.BindPort, err)
	}
	if mc.BindPort == 0 {
		mc.BindPort = nt.GetAutoBindPort()
	}
	if mc.AdvertisePort == 0 {
		mc.AdvertisePort = mc.BindPort
	}
	return &transport{NetTransport: nt, ctx: ctx}, nil
}

// DialAddressTimeout connects over TCP. It fails when the cluster is closed.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	return dialer.DialContext(t.ctx, "tcp", a.Addr)
}

// metaDelegate gives memberlist this node's meta. Gossip spreads nothing else.
type metaDelegate []byte

// NodeMeta returns the meta, which is always far below the limit: see Meta.
func (d metaDelegate) NodeMeta(int) []byte { return d }

// NotifyMsg ignores messages, because none are sent.
func (metaDelegate) NotifyMsg([]byte) {}

// GetBroadcasts returns nil: there are no broadcasts.
func (metaDelegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState returns nil: there is no state to exchange.
func (metaDelegate) LocalState(bool) []byte { return nil }

// MergeRemoteState ignores the other member's state.
func (metaDelegate) MergeRemoteState([]byte, bool) {}

// debugLogger turns memberlist's log lines into debug records. Each line is passed to read first.
func debugLogger(l *slog.Logger, read func(line string)) *log.Logger {
	return log.New(debugWriter{l, read}, "", 0)
}

type debugWriter struct {
	log  *slog.Logger
	read func(line string)
}

// Write logs one line.
func (w debugWriter) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	w.read(text)
	w.log.Debug("gossip", "line", text)
	return len(line), nil
}
