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
)

// One op is one token of a batch of 256.
func BenchmarkEngine(b *testing.B) {
	m := defaultModel()
	m.PrefillTokensPerSecond = 1e12
	e := newEngine(m, 0, 1, 0)
	for range m.MaxRunning {
		e.add(&sequence{prompt: 1, output: 1 << 60})
	}
	var out []emission
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(out) {
		at, _ := e.next()
		out = e.advance(at, out[:0])
	}
}

func BenchmarkEncoder(b *testing.B) {
	c := Default()
	c.Truth.Stamp = true
	e := chat.encoder(&request{api: chat, stream: true, model: "meta-llama/Llama-3.1-8B"}, &c, "run-7-0001234",
		1_700_000_000)
	var buf []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.common().seal(e.tokens(buf[:0], i, i+1, ""))
	}
	b.SetBytes(int64(len(buf)))
}

// One op is the accounting of one token in a step of 256.
func BenchmarkAccount(b *testing.B) {
	l := &loop{latencies: newLatencies()}
	step := make([]emission, 256)
	for i := range step {
		step[i] = emission{seq: &sequence{output: 1 << 60}, produced: 2}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(step) {
		for i := range step {
			step[i].at = clock.Instant(n) * clock.Instant(20*time.Microsecond)
		}
		l.account(step)
	}
}

// One op is one body of a long prompt. Hashing it for the prefix cache is the difference between cache=false and true.
func BenchmarkParseRequest(b *testing.B) {
	for form, prompt := range map[string]string{
		"ids":  "[" + strings.Repeat("1234,", 31999) + "1234]",
		"text": `"` + strings.Repeat("water ", 32000) + `"`,
	} {
		for _, cache := range []bool{false, true} {
			b.Run(fmt.Sprintf("32000-%s/cache=%v", form, cache), func(b *testing.B) {
				c := Default()
				if cache {
					c.Model.CacheBlocks = 1 << 20
				}
				body := []byte(`{"model":"m","prompt":` + prompt + `,"max_tokens":150,"stream":true}`)
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if _, problem := parseRequest(completions, body, &c); problem != nil {
						b.Fatal(problem.Message)
					}
				}
			})
		}
	}
}

// One op is only the hashing of a prompt of 32,000 tokens, without decoding the body around it.
func BenchmarkPromptHash(b *testing.B) {
	for form, raw := range map[string][]byte{
		"ids":  []byte("[" + strings.Repeat("1234,", 31999) + "1234]"),
		"text": []byte(`"` + strings.Repeat("water ", 32000) + `"`),
	} {
		for _, size := range []int{0, 16} {
			b.Run(fmt.Sprintf("32000-%s/block=%d", form, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					t := tokens{size: size}
					if problem := t.prompt(raw); problem != nil {
						b.Fatal(problem.Message)
					}
				}
			})
		}
	}
}

// One op is looking up and storing a prompt of 32,000 tokens in a full cache: with hits, and with as many evictions.
func BenchmarkPrefixCache(b *testing.B) {
	for _, hit := range []bool{true, false} {
		b.Run(fmt.Sprint("hit=", hit), func(b *testing.B) {
			cache := newPrefixCache(100_000)
			prompt := make([]uint64, 2000)
			b.ReportAllocs()
			for n := 0; b.Loop() || n < 100; n++ {
				for i := range prompt {
					prompt[i] = uint64(i + 1)
					if !hit {
						prompt[i] += uint64(n * len(prompt))
					}
				}
				cache.lookup(prompt)
				cache.store(prompt)
			}
		})
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
			c.Truth = Truth{Stamp: true, Keep: true, Tokens: true}
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
				c := Default()
				c.Pace = Pace{FirstToken: 50 * time.Millisecond, BetweenTokens: 20 * time.Millisecond, Ticks: ticks}
				c.Truth = Truth{Stamp: true, Keep: true, Tokens: true}
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
func reportSteadyLate(b *testing.B, p Pace, records []Record) {
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
func reportLate(b *testing.B, m Model, records []Record) {
	slices.SortFunc(records, func(x, y Record) int { return int(x.Received - y.Received) })
	e := newEngine(m, 0, 1, 0)
	sent := map[*sequence][]clock.Instant{}
	var due []emission
	for _, r := range records {
		due = e.advance(r.Received, due)
		s := &sequence{prompt: r.PromptTokens, output: r.OutputTokens}
		sent[s] = r.Tokens
		e.add(s)
	}
	due = e.advance(e.now.Add(time.Hour), due)
	late := make([]time.Duration, len(due))
	for i, em := range due {
		late[i] = sent[em.seq][em.produced-1].Sub(em.at)
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

func startBench(b *testing.B, c Config) *Server {
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
