// Peers puts the same load on the same server with Spate and other load generators for LLM serving, and compares what
// each reports with what the server did.
//
// For each run it starts `spate simulate` on one core and one tool, with all of its processes, on another. It reads the
// tool's own results and the server's truth file, and records CPU time and memory of the tool's processes. Rounds are
// interleaved (A, B, C, A, B, C), so that a machine whose speed changes is the same for all. Load goes to loopback
// only, every run is bounded in requests and in time, and Peers ends only processes that it started. `make bench-peers`
// runs it; docs/accuracy.md has the results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := peers(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	bench
	pace    Pace
	rounds  int
	streams string
	shapes  string
	names   string
	out     string
	from    string
}

func parse(args []string) (*settings, error) {
	var s settings
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.StringVar(&s.spate, "spate", "../../bin/spate", "the spate command, server and client")
	f.StringVar(&s.home, "home", ".", "folder of bench/peers, with the tools' environments")
	f.StringVar(&s.streams, "streams", "1 100 500 1000 4000", "numbers of streams")
	f.StringVar(&s.shapes, "shapes", "ticks spread published",
		"shapes of the load: ticks, spread, and published, which has 1,000 streams whatever -streams says")
	f.StringVar(&s.names, "tools", "", "tools (default: all that are installed)")
	f.IntVar(&s.rounds, "rounds", 3, "rounds")
	f.DurationVar(&s.timeout, "timeout", time.Minute, "longest run of a tool, its start included")
	f.StringVar(&s.out, "out", "out", "folder for peers.md and peers.json; it is emptied first")
	f.StringVar(&s.from, "from", "", "make only the table, of this peers.json")
	f.IntVar(&s.clientCore, "client-core", 0, "core of the tool, all of its processes")
	f.IntVar(&s.serverCore, "server-core", 1, "core of the server")
	f.DurationVar(&s.pace.TTFT, "ttft", 50*time.Millisecond, "the server's time to first token")
	f.DurationVar(&s.pace.ITL, "itl", 20*time.Millisecond, "the server's inter-token latency")
	f.IntVar(&s.pace.Frames, "frames", 40_000,
		"most token frames a second: more streams get a longer inter-token latency")
	f.DurationVar(&s.pace.Lasting, "lasting", 5*time.Second, "about how long each load lasts")
	f.IntVar(&s.pace.ISL, "isl", 10, "prompt tokens")
	f.IntVar(&s.pace.OSL, "osl", 100, "output tokens")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: only flags are expected", f.Arg(0))
	}
	return &s, s.resolve()
}

// resolve makes the paths absolute, because tools run in their own folders.
func (s *settings) resolve() error {
	var errs [3]error
	s.spate, errs[0] = filepath.Abs(s.spate)
	s.home, errs[1] = filepath.Abs(s.home)
	s.out, errs[2] = filepath.Abs(s.out)
	s.work = filepath.Join(s.out, "runs")
	return errors.Join(errs[:]...)
}

func peers(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if s.from != "" {
		return again(s.from)
	}
	loads, err := s.loads()
	if err != nil {
		return err
	}
	chosen, results, err := s.choose()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.work); err != nil {
		return err
	}
	err = s.measure(ctx, chosen, loads, results)
	if err != nil && ctx.Err() == nil {
		return err
	}
	return write(s.out, results) // including what was measured before an interrupt
}

// loads returns the loads of a round, in order.
func (s *settings) loads() ([]Load, error) {
	var loads []Load
	for _, name := range strings.Fields(s.shapes) {
		switch shape := Shape(name); shape {
		case Published:
			l := published
			l.ISL = s.pace.ISL
			loads = append(loads, l)
		case Ticks, Spread:
			more, err := s.loadsOf(shape)
			if err != nil {
				return nil, err
			}
			loads = append(loads, more...)
		default:
			return nil, fmt.Errorf("-shapes %q: want ticks, spread or published", name)
		}
	}
	return loads, nil
}

// loadsOf returns the loads of a shape, by streams.
func (s *settings) loadsOf(shape Shape) ([]Load, error) {
	var loads []Load
	for _, text := range strings.Fields(s.streams) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-streams %q: want numbers of 1 or more", text)
		}
		loads = append(loads, s.pace.load(shape, n))
	}
	return loads, nil
}

// choose finds the tools that will run, and their versions. A tool that the flags name must be installed; otherwise
// tools that are not installed are reported.
func (s *settings) choose() ([]Tool, *Results, error) {
	results := &Results{Machine: thisMachine(), Started: time.Now().UTC(), Rounds: s.rounds, Timeout: s.timeout,
		Versions: map[string]string{}}
	names := strings.Fields(s.names)
	for _, name := range names {
		if !slices.ContainsFunc(tools, func(t Tool) bool { return t.Name == name }) {
			return nil, nil, fmt.Errorf("-tools %q: there is no such tool", name)
		}
	}
	var chosen []Tool
	for _, t := range tools {
		if len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		version, err := t.version(s.home, s.spate)
		if err != nil && len(names) > 0 {
			return nil, nil, err
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "Left out:", err)
			continue
		}
		results.Versions[t.Name] = version
		chosen = append(chosen, t)
	}
	return chosen, results, nil
}

// measure makes all runs: round after round, in each round load after load, and under each load tool after tool.
func (s *settings) measure(ctx context.Context, chosen []Tool, loads []Load, results *Results) error {
	for round := range s.rounds {
		for _, l := range loads {
			for _, t := range chosen {
				r, err := s.run(ctx, t, round, l)
				if err != nil {
					return err
				}
				results.Runs = append(results.Runs, r)
				fmt.Fprintln(os.Stderr, progress(r))
			}
		}
	}
	return nil
}

// progress returns a line about a run.
func progress(r Run) string {
	text := fmt.Sprintf("round %d  %-10s %5d streams  %-10s %5.1f s  ", r.Round+1, r.Load.Shape, r.Load.Streams, r.Tool,
		r.Usage.Seconds)
	if r.Failure != "" {
		return text + r.Failure
	}
	e := r.Report.TTFT.less(r.Truth.TTFT)
	return text + fmt.Sprintf("TTFT %s ms beyond the truth on average", number(e.Mean))
}

// again makes the table again from saved results.
func again(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var results Results
	if err := json.Unmarshal(text, &results); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = os.Stdout.WriteString(results.Markdown())
	return err
}
