package membership

import (
	"context"
	"fmt"
	"net"
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
