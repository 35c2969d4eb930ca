// Command examples runs the shipped plans against the simulator and writes a page for each into docs/examples: make examples. Stages are
// timed, so nothing else should run on the machine. It reads results.json and report.md of its runs, and simulator/testdata/seeds.yaml for
// what was measured on the deployments that the plans simulate; it measures nothing itself.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/plans"
)

// speeds are how many times faster than planned the long plans are run: as far as two cores keep up, which is about 20,000 tokens a second.
var speeds = map[string]float64{"dynamo-vllm-h20": 5, "deepseek-r1-h20": 10, "mooncake-a10": 4, "gpustack-h100": 4}

// settings say what is run and where pages go.
type settings struct {
	spate, seeds, out string
	speeds            map[string]float64
}

func main() {
	s := settings{speeds: speeds}
	flag.StringVar(&s.spate, "spate", "bin/spate", "the `program`")
	flag.StringVar(&s.seeds, "seeds", "simulator/testdata/seeds.yaml", "`file` of what was measured")
	flag.StringVar(&s.out, "out", "docs/examples", "`folder` for the pages")
	flag.Parse()
	names := flag.Args()
	if len(names) == 0 {
		names = plans.Shipped()
	}
	if err := s.makeAll(names); err != nil {
		fmt.Fprintln(os.Stderr, "examples:", err)
		os.Exit(1)
	}
}

func (s *settings) makeAll(names []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, name := range names {
		if err := s.make(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// make runs a plan and writes its page.
func (s *settings) make(ctx context.Context, name string) error {
	seeds, err := readSeeds(s.seeds)
	if err != nil {
		return err
	}
	seeds = slices.DeleteFunc(seeds, func(d seed) bool { return d.Plan != name })
	dir, err := os.MkdirTemp("", "spate-example-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	command, err := s.run(ctx, name, dir)
	if err != nil {
		return err
	}
	mark, err := fingerprint(name)
	if err != nil {
		return err
	}
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\nMade by `%s` (`make examples`), on %d cores with 2 embedded agents. The plan is plans/%s.yaml.\n",
		name, command, runtime.NumCPU(), name)
	fmt.Fprintf(&page, "\n<!-- plan %s -->\n", mark)
	if err := s.write(&page, name, filepath.Join(dir, "run"), seeds); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.out, name+".md"), []byte(page.String()), 0o644)
}

// run runs a plan, and returns the command as a user types it. A run that ends with results and an exit code has a verdict, and is no error.
func (s *settings) run(ctx context.Context, name, dir string) (string, error) {
	args := []string{"run", name}
	if k := s.speeds[name]; k > 0 {
		args = append(args, fmt.Sprintf("--simulate=%g", k))
	}
	command := "spate " + strings.Join(args, " ")
	fmt.Fprintln(os.Stderr, command)
	c := exec.CommandContext(ctx, s.spate, append(args, "--out", filepath.Join(dir, "run"))...)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	err := c.Run()
	if _, missing := os.Stat(filepath.Join(dir, "run", "results.json")); err != nil && missing != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return command, nil
}

// write appends the tables of a run.
func (s *settings) write(page io.Writer, name, run string, seeds []seed) error {
	if len(seeds) == 0 {
		return copyTables(page, filepath.Join(run, "report.md"))
	}
	stages, err := readStages(filepath.Join(run, "results.json"))
	if err != nil {
		return err
	}
	return writeBeside(page, stages, seeds, max(1, s.speeds[name]))
}

// fingerprint names a plan by what it says: the hash of its message, so that comments do not matter.
func fingerprint(name string) (string, error) {
	source, err := plans.Open(name)
	if err != nil {
		return "", err
	}
	plan, err := plans.Load(name, source, plans.Options{})
	if err != nil {
		return "", err
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(plan.Proto())
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}
