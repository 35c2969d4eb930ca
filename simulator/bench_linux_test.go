package simulator

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
)

// One op is the accounting of one token in a step of 256.
func BenchmarkAccount(b *testing.B) {
	l := &loop{latencies: newLatencies()}
	step := make([]engine.Emission, 256)
	for i := range step {
		step[i] = engine.Emission{Seq: &engine.Sequence{Output: 1 << 60}, Produced: 2}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(step) {
		for i := range step {
			step[i].At = clock.Instant(n) * clock.Instant(20*time.Microsecond)
		}
		l.account(step)
	}
}

// One op is one frame through the kernel at full speed, read and counted by clients in this process. cpu-us/frame
// includes both sides. The clients find many frames in each read, so a frame costs far less than a frame that is sent
// and read alone: see BenchmarkPacedFrames for that.
func BenchmarkFrames(b *testing.B) {
	for _, streams := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint("streams=", streams), func(b *testing.B) {
			c := fast()
			c.Model.DecodeStep = 0
			c.Model.MaxRunning = streams
			s := startBench(b, c)
			tokens := b.N/streams + 1
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime()
			receive(b, s, streams, tokens)
			frames := float64(streams * tokens)
			b.ReportMetric(frames/b.Elapsed().Seconds(), "frames/s")
			b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/frames/1000, "cpu-us/frame")
		})
	}
}

// One op is one decode step of all streams at 20 ms. late is the time from the instant the model has a token to just
// before its write. It includes the clients' reading in this process.
func BenchmarkPacedFrames(b *testing.B) {
	for _, streams := range []int{1, 100, 500} {
		b.Run(fmt.Sprint("streams=", streams), func(b *testing.B) {
			c := fast()
			c.Model.DecodeStep = 20 * time.Millisecond
			c.Model.MaxRunning = streams
			c.Truth = config.Truth{Stamp: true, Keep: true, Tokens: true}
			s := startBench(b, c)
			before := cpuTime()
			receive(b, s, streams, b.N+2)
			b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(streams*(b.N+2))/1000, "cpu-us/frame")
			reportLate(b, c.Model, s.Records())
		})
	}
}

// One op is one frame of streams that get a token every 20 ms, all at once or each on its own schedule. late is the
// time from the instant a token is due to just before its write. It includes the clients' reading in this process.
func BenchmarkSteadyFrames(b *testing.B) {
	for _, ticks := range []bool{false, true} {
		for _, streams := range []int{100, 1000, 4000} {
			b.Run(fmt.Sprintf("ticks=%v/streams=%d", ticks, streams), func(b *testing.B) {
				c := config.Default()
				c.Pace = config.Pace{FirstToken: 50 * time.Millisecond, BetweenTokens: 20 * time.Millisecond,
					Ticks: ticks}
				c.Truth = config.Truth{Stamp: true, Keep: true, Tokens: true}
				s := startBench(b, c)
				tokens := b.N/streams + 2
				before := cpuTime()
				receive(b, s, streams, tokens)
				b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(streams*tokens)/1000, "cpu-us/frame")
				reportSteadyLate(b, c.Pace, s.Records())
			})
		}
	}
}

// reportSteadyLate compares each send with the schedule, which starts at the request's arrival or, with ticks, at the
// request's first token.
func reportSteadyLate(b *testing.B, p config.Pace, records []Record) {
	var late []time.Duration
	for _, r := range records {
		due := r.Received.Add(p.FirstToken)
		if p.Ticks {
			due = r.Tokens[0]
		}
		for i, at := range r.Tokens {
			late = append(late, at.Sub(due.Add(time.Duration(i)*p.BetweenTokens)))
		}
	}
	reportPercentiles(b, late)
}

// reportLate compares each send with the instant at which a fresh engine, given the same arrivals, has the token.
// Delays are not limited to a step: a token that is three steps late counts as three steps.
func reportLate(b *testing.B, m config.Model, records []Record) {
	slices.SortFunc(records, func(x, y Record) int { return int(x.Received - y.Received) })
	e := engine.New(&config.Config{Endpoints: 1, Replicas: 1, Model: m}, 0, 0)
	sent := map[*engine.Sequence][]clock.Instant{}
	var due []engine.Emission
	for _, r := range records {
		due = e.Advance(r.Received, due)
		s := &engine.Sequence{Prompt: r.PromptTokens, Output: r.OutputTokens}
		sent[s] = r.Tokens
		e.Add(s)
	}
	due = e.Advance(records[len(records)-1].Received.Add(time.Hour), due)
	late := make([]time.Duration, len(due))
	for i, em := range due {
		late[i] = sent[em.Seq][em.Produced-1].Sub(em.At)
	}
	reportPercentiles(b, late)
}

func reportPercentiles(b *testing.B, late []time.Duration) {
	slices.Sort(late)
	for _, p := range []int{0, 50, 99, 100} {
		b.ReportMetric(float64(late[(len(late)-1)*p/100].Microseconds()), fmt.Sprintf("late-p%d-us", p))
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func startBench(b *testing.B, c config.Config) *Server {
	b.Helper()
	s, err := Start(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(b.Context()) })
	return s
}

// receive runs streams of a number of tokens each to their ends over raw connections. It counts the frames that arrive,
// so that a stream that fails early does not count as a fast one.
func receive(b *testing.B, s *Server, streams, tokens int) {
	addr := strings.TrimPrefix(s.URLs()[0], "http://")
	body := fmt.Sprintf(`{"model":"m","messages":[{"content":"a"}],"max_tokens":%d,"stream":true}`, tokens)
	ask := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", chatPath,
		len(body), body)
	var group sync.WaitGroup
	for range streams {
		group.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, ask); err != nil {
				b.Error(err)
			}
			if frames, err := countFrames(conn); err != nil || frames != tokens {
				b.Errorf("%d of %d token frames, %v", frames, tokens, err)
			}
		})
	}
	group.Wait()
}

// countFrames reads to the end and counts the token frames: those with non-empty content.
func countFrames(r io.Reader) (int, error) {
	lines := bufio.NewReader(r)
	n := 0
	for {
		line, err := lines.ReadSlice('\n')
		if bytes.Contains(line, []byte(`"content":" `)) {
			n++
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
