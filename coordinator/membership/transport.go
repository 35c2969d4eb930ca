package membership

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

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

// debugLogger turns memberlist's log lines into debug records.
func debugLogger(l *slog.Logger) *log.Logger { return log.New(debugWriter{l}, "", 0) }

type debugWriter struct{ log *slog.Logger }

// Write logs one line.
func (w debugWriter) Write(line []byte) (int, error) {
	w.log.Debug("gossip", "line", strings.TrimSpace(string(line)))
	return len(line), nil
}
