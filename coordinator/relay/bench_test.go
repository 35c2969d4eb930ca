package relay

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/bundle"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/streams"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// crowd returns what agents with about 300 requests a second each measured in a window: 10 distributions, and counters
// that differ from agent to agent.
func crowd(agents int, window uint32) []*spatev1.RelayedSnapshot {
	random := rand.New(rand.NewPCG(1, uint64(window)))
	vary := func(mean float64) uint64 { return uint64(mean * (1 + 0.1*random.NormFloat64())) }
	var all []*spatev1.RelayedSnapshot
	for i := range agents {
		n := vary(300)
		s := &spatev1.Snapshot{
			Key: &spatev1.SnapshotKey{
				RunId: "chat-sweep-20261126T101500Z-a1b2c3", Agent: fmt.Sprintf("agent-%04d", i),
				Incarnation: rand.New(rand.NewPCG(2, uint64(i))).Uint64(), Sequence: uint64(window) + 1,
			},
			StageIndex: 3, Revision: 1, Window: window, PeakInFlight: uint32(vary(1000)),
		}
		series := &spatev1.Series{Counters: &spatev1.Counters{
			Started: n, Completed: vary(300), InputTokens: vary(3000 * 300), OutputTokens: vary(150 * 300),
			Frames: vary(150 * 300), TokensArrived: vary(150 * 300), TokenFrames: vary(150 * 300),
			Chunks: vary(150 * 300),
		}}
		for _, c := range []struct {
			metric        spatev1.Metric
			median, sigma float64
		}{
			{spatev1.Metric_METRIC_TTFT, 300e6, 0.5}, {spatev1.Metric_METRIC_TTFT_SCHEDULED, 310e6, 0.5},
			{spatev1.Metric_METRIC_E2E, 4e9, 0.3}, {spatev1.Metric_METRIC_E2E_SCHEDULED, 4.1e9, 0.3},
			{spatev1.Metric_METRIC_TPOT, 20e6, 0.3}, {spatev1.Metric_METRIC_ITL, 18e6, 0.6},
			{spatev1.Metric_METRIC_SEND_DELAY, 60e3, 0.7}, {spatev1.Metric_METRIC_ISL, 3000, 0.4},
			{spatev1.Metric_METRIC_OSL, 150, 0.4}, {spatev1.Metric_METRIC_RECEIVE_LAG, 30e3, 0.8},
		} {
			h := histogram.New(histogram.LayoutOf(c.metric))
			for range n {
				h.Record(int64(c.median * math.Exp(c.sigma*random.NormFloat64())))
			}
			series.Distributions = append(series.Distributions, h.Proto(c.metric))
		}
		s.Series = []*spatev1.Series{series}
		rest := bundle.Shared(s) // spread over five windows
		for w := range uint32(5) {
			share := &spatev1.WindowShare{
				Window: window - 4 + w, OutputTokens: vary(3000), Chunks: vary(3000), MicroRequests: vary(2e7),
			}
			if w == 4 {
				share.OutputTokens, share.Chunks, share.MicroRequests = rest.Tokens, rest.Chunks, rest.MicroRequests
			}
			rest.Tokens, rest.Chunks = rest.Tokens-share.OutputTokens, rest.Chunks-share.Chunks
			rest.MicroRequests -= share.MicroRequests
			s.Shares = append(s.Shares, share)
		}
		all = append(all, &spatev1.RelayedSnapshot{Stream: uint64(i + 1), Snapshot: s})
	}
	return all
}

// compressed returns the size of a message as it is sent.
func compressed(b *testing.B, m proto.Message) int {
	data, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	w, err := encoding.GetCompressor(streams.Zstd).Compress(&out)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	return out.Len()
}

// heartbeats returns heartbeats of agents, as they are sent together.
func heartbeats(from, to int) *spatev1.RelayControlRequest {
	random, m := rand.New(rand.NewPCG(3, uint64(from))), &spatev1.RelayControlRequest{}
	for i := from; i < to; i++ {
		m.Messages = append(m.Messages, &spatev1.FromAgent{
			Stream: uint64(i + 1), Event: &spatev1.FromAgent_Said{Said: &spatev1.ConnectRequest{
				Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{
					InFlight: 900 + random.Uint32N(200), UnackedSnapshots: 1, CpuCores: random.Float64(),
					ClockOffsetNs: random.Int64N(1e6), ClockUncertaintyNs: 1e6 + random.Int64N(1e5), Number: 100,
				}},
			}},
		})
	}
	return m
}

// What a relay sends for a second of 1,000 agents, for each agent: their heartbeats, a hundred at a time, and their
// snapshots of a window, as they are and bundled.
func BenchmarkWindow(b *testing.B) {
	const agents = 1000
	all := crowd(agents, 9)
	single := 0
	for _, s := range all[:100] {
		single += proto.Size(s.GetSnapshot())
	}
	own := compressed(b, &spatev1.RelayPushRequest{Snapshots: all})
	region := func(*spatev1.SnapshotKey) (origin, bool) { return origin{region: "eu"}, true }
	for b.Loop() {
		bundler := newBundler(region)
		for _, s := range all {
			bundler.add(s, 0, func() {})
		}
		m, _ := bundler.take(clock.Instant(patience), 1<<20)
		for _, one := range m.GetBundles()[0].GetMembers() { // as in all bundles but the first
			one.Sender = nil
		}
		b.ReportMetric(float64(compressed(b, m))/agents, "bytes/agent")
		b.ReportMetric(float64(compressed(b, m.GetBundles()[0].GetMerged()))/agents, "values-bytes/agent")
		b.ReportMetric(float64(proto.Size(m)-proto.Size(m.GetBundles()[0].GetMerged()))/agents, "raw-members-bytes/agent")
	}
	beats := 0
	for from := 0; from < agents; from += 100 {
		beats += compressed(b, heartbeats(from, from+100))
	}
	b.ReportMetric(float64(beats)/agents, "heartbeat-bytes/agent")
	b.ReportMetric(float64(single)/100, "raw-bytes/agent")
	b.ReportMetric(float64(own)/agents, "unbundled-bytes/agent")
}
