package regions

import (
	"fmt"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/internal/netlab"
)

// packetsPlan streams 50 tokens to each of 20 slots.
const packetsPlan = `
name: packets
targets: [{name: server, endpoints: [%q], model: m}]
workloads: [{random: {isl: 20, osl: 50}}]
loads: [{concurrency: [20], requests: 100}]
`

// Behind a lost packet, frames become readable when that packet has come again. With the times of packets they have
// this time, and not that at which they arrived to wait: the program reads them at once.
func TestPacketTimesOverALossyPath(t *testing.T) {
	streamtest.NeedPackets(t)
	const delay = 50 * time.Millisecond
	w := newWorld(t)
	w.startCoordinator()
	s := w.serve("server", "--decode-step", "10ms")
	h := w.join(site{name: "eu", region: "eu", flags: []string{"--packet-times", "on"}})
	w.lab.OneWay(s.host, h, netlab.Path{Delay: delay, Loss: 0.05})
	w.lab.OneWay(h, s.host, netlab.Path{Delay: delay})
	w.awaitAgents()
	r := w.run(fmt.Sprintf(packetsPlan, s.url), "--fail-on", "never")
	r.MustExit(0)
	stage := r.mustBeComplete().Stages[0]
	waited, lag := time.Duration(stage.ITL.P99*1e6), time.Duration(stage.ReceiveLag.P90*1e6)
	t.Logf("gaps p99 %v, receive lag p90 %v, %+v", waited, lag, stage.Streams)
	if stage.Streams.PacketFrames != stage.Streams.Frames || stage.Streams.Frames < 100*50 {
		t.Errorf("%d of %d frames have the times of packets", stage.Streams.PacketFrames, stage.Streams.Frames)
	}
	if waited < delay || lag > delay/2 {
		t.Errorf("gaps p99 %v, receive lag p90 %v: frames waited for others to arrive, not for the program", waited, lag)
	}
}
