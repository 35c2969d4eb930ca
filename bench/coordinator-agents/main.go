// Command coordinator-agents simulates many agents against one coordinator and reports what they cost it.
//
// Each agent has its own two connections and does what an agent of this version does in the middle of a stage: Hello,
// Applied, a heartbeat per second, a snapshot per window sent 250 ms after the window's end, and totals at the end. It
// sends no requests. The coordinator is another process on this machine, which the caller starts; usually
// bench/coordinator-1000.sh does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// settings are the flags.
type settings struct {
	coordinator string        // address of its services
	status      string        // its --http-listen
	pid         int           // its process
	dataDir     string        // its --data-dir
	agents      int           // number of agents
	regions     int           // number of regions of the agents
	windows     int           // windows played
	settle      int           // first windows, which are not measured
	values      int           // requests per window, and so values per distribution
	records     string        // form of request rows: "parquet", "jsonl" or empty
	join        time.Duration // agents connect over this time
	slow        int           // how long a second of the agents takes
}

func main() {
	var s settings
	flag.StringVar(&s.coordinator, "coordinator", "127.0.0.1:7700", "its `IP:PORT`")
	flag.StringVar(&s.status, "status", "127.0.0.1:9464", "`IP:PORT` of its --http-listen")
	flag.IntVar(&s.pid, "pid", 0, "its process")
	flag.StringVar(&s.dataDir, "data-dir", "runs", "its --data-dir")
	flag.IntVar(&s.agents, "agents", 1000, "agents")
	flag.IntVar(&s.regions, "regions", 1, "regions that the agents are of")
	flag.IntVar(&s.windows, "windows", 60, "windows of a second")
	flag.IntVar(&s.settle, "settle", 5, "first windows, which are not measured")
	flag.IntVar(&s.values, "values", 300,
		"requests of an agent and window: each of its 10 distributions has as many values")
	flag.StringVar(&s.records, "records", "", "rows of requests: parquet or jsonl; empty: none")
	flag.DurationVar(&s.join, "join", 4*time.Second, "time over which the agents connect")
	flag.IntVar(&s.slow, "slow", 1, "seconds that a second of the agents takes, for more agents than the cores can "+
		"bear: all figures are those of cores so many times as fast")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := play(ctx, s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "coordinator-agents:", err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
	fmt.Print(r)
}

// check finds mistakes in the flags.
func (s settings) check() error {
	if s.agents < 1 || s.regions < 1 || s.values < 1 || s.settle < 1 || s.slow < 1 || s.windows < s.settle+2 {
		return errors.New("give at least one agent, region, value, window to settle and second of a second, and two " +
			"windows more than settle")
	}
	return nil
}

// seconds returns how long some seconds of the agents take.
func (s settings) seconds(n int) time.Duration { return time.Duration(n*s.slow) * time.Second }

// play runs one stage from start to end.
func play(ctx context.Context, s settings) (report, error) {
	if err := s.check(); err != nil {
		return report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	crowd := newCrowd(s)
	m := newMeter(s)
	first, err := m.read()
	if err != nil {
		return report{}, err
	}
	before, err := m.written()
	if err != nil {
		return report{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- crowd.play(ctx) }()
	end, err := submit(ctx, s, crowd, m)
	cancel()
	if played := <-ended; err == nil && played != nil && !errors.Is(played, context.Canceled) {
		err = played
	}
	if err != nil {
		return report{}, err
	}
	end.written -= before
	return m.report(first, end, &crowd.answers)
}
