package web

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// BenchmarkViewers measures what a second costs with 1,000 agents and 100 viewers of a page: CPU time of drawing,
// sending, and of the viewers' reading in the same process.
func BenchmarkViewers(b *testing.B) {
	const viewers = 100
	for _, page := range []struct{ name, path, last string }{
		{"run", "/runs/live/parts", "data: team"}, {"all runs", "/parts", "data: agents"},
	} {
		b.Run(page.name, func(b *testing.B) {
			s := start(b)
			var agents []*spatev1.AgentInfo
			s.fake.agents = nil
			for i := range 1000 {
				a := &spatev1.AgentInfo{Name: fmt.Sprintf("agent-%04d", i), Region: fmt.Sprintf("region-%d", i%3), Weight: 1}
				agents = append(agents, a)
				s.fake.agents = append(s.fake.agents, &spatev1.AgentStatus{Agent: a,
					Health: spatev1.AgentHealth_AGENT_HEALTH_BUSY, Heartbeat: &spatev1.Heartbeat{InFlight: 64}})
			}
			for _, e := range started(agents...) {
				s.fake.add("live", e)
			}
			for n := range uint32(300) {
				s.fake.add("live", second(n))
			}
			ctx, cancel := context.WithCancel(b.Context())
			var reading sync.WaitGroup
			var states, bytes atomic.Int64
			for range viewers {
				a, err := s.Client().Do(s.request("GET", page.path, "").WithContext(ctx))
				if err != nil {
					b.Fatal(err)
				}
				reading.Go(func() {
					defer a.Body.Close()
					lines := bufio.NewScanner(a.Body)
					for lines.Scan() {
						bytes.Add(int64(len(lines.Bytes())))
						if strings.HasPrefix(lines.Text(), page.last) {
							states.Add(1)
						}
					}
				})
			}
			s.wait("the first state", func() bool { return states.Load() >= viewers })
			begin, sent := clock.CPU(), bytes.Load()
			b.ResetTimer()
			for i := range b.N {
				next := time.Now().Add(time.Second)
				s.fake.mu.Lock()
				for j, a := range s.fake.agents {
					a = proto.CloneOf(a)
					a.Heartbeat.InFlight = uint32(i)
					s.fake.agents[j] = a
				}
				s.fake.mu.Unlock()
				s.fake.add("live", second(uint32(300+i)))
				time.Sleep(time.Until(next))
			}
			b.ReportMetric((clock.CPU()-begin).Seconds()*1000/float64(b.N), "cpu-ms/s")
			b.ReportMetric(float64(bytes.Load()-sent)/float64(b.N)/viewers/1024, "KiB/s/viewer")
			cancel()
			reading.Wait()
		})
	}
}
