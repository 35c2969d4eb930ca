// Command examples runs the shipped plans against the simulator and writes a page about each into docs/examples: make
// examples. Stages are timed, so nothing else should run on the machine. The command reads results.json and report.md
// of its runs, and simulator/fits/testdata/seeds.yaml for what was measured on the deployments that the plans simulate.
// It measures nothing itself.
//
// A plan with published numbers is run one target at a time, and the runs are kept. With PLAN/TARGET as its argument,
// the command runs only that target and writes the page from this run and the kept ones.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spate-load/spate/plans"
)

// speeds are how many times faster than planned the long plans, or some of their targets, are run. Two cores keep up
// with 30,000 tokens per second.
var speeds = map[string]float64{
	"dynamo-vllm-h20": 12, "dynamo-vllm-h20/vllm-v0": 5, "dynamo-vllm-h20/vllm-v1": 5, "deepseek-r1-h20": 30,
	"mooncake-a10": 8, "gpustack-h100": 3,
}

// settings say what to run and where the pages go.
type settings struct {
	spate, seeds, runs, out string
	kept                    bool
	speeds                  map[string]float64
}

func main() {
	s := settings{speeds: speeds}
	flag.StringVar(&s.spate, "spate", "bin/spate", "the `program`")
	flag.StringVar(&s.seeds, "seeds", "simulator/fits/testdata/seeds.yaml", "`file` of what was measured")
	flag.StringVar(&s.runs, "runs", ".bin/tmp/examples", "`folder` for the runs, which are kept")
	flag.BoolVar(&s.kept, "kept", false, "write the pages of the kept runs and run nothing")
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
		plan, target, _ := strings.Cut(name, "/")
		if err := s.make(ctx, plan, target); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// make runs a plan, or one target of it, and writes the plan's page.
func (s *settings) make(ctx context.Context, name, target string) error {
	seeds, err := readSeeds(s.seeds)
	if err != nil {
		return err
	}
	seeds = slices.DeleteFunc(seeds, func(d seed) bool { return d.Plan != name })
	if len(seeds) == 0 {
		if target != "" {
			return errors.New("it has no published numbers and is run as a whole: name the plan alone")
		}
		return s.makeWhole(ctx, name)
	}
	found := false
	for _, d := range seeds {
		if target != "" && d.Target != target {
			continue
		}
		found = true
		if err := s.run(ctx, s.args(name, d.Target), s.runOf(name, d.Target)); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("there are no published numbers of target %q", target)
	}
	return s.writeTargets(name, seeds)
}

// makeWhole runs a plan without published numbers. Its page has the tables of the run's report.
func (s *settings) makeWhole(ctx context.Context, name string) error {
	args, run := s.args(name, ""), s.runOf(name, "all")
	if err := s.run(ctx, args, run); err != nil {
		return err
	}
	mark, err := fingerprint(name)
	if err != nil {
		return err
	}
	var page strings.Builder
	writeHead(&page, name, "`"+command(args)+"`")
	fmt.Fprintf(&page, "\n<!-- plan %s -->\n", mark)
	if err := copyTables(&page, filepath.Join(run, "report.md")); err != nil {
		return err
	}
	return s.save(name, page.String())
}

// writeTargets writes the page of a plan with published numbers, if all of its targets have been run.
func (s *settings) writeTargets(name string, seeds []seed) error {
	var stages []stage
	var commands []string
	for _, d := range seeds {
		commands = append(commands, "`"+command(s.args(name, d.Target))+"`")
		run, err := readStages(filepath.Join(s.runOf(name, d.Target), "results.json"))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "No page yet: %s has not been run. Run: make examples PLANS=%s/%s\n", d.Target,
				name, d.Target)
			return nil
		}
		if err != nil {
			return err
		}
		stages = append(stages, run...)
	}
	var page strings.Builder
	writeHead(&page, name, strings.Join(commands, ", "))
	if err := writeBeside(&page, stages, seeds,
		func(target string) float64 { return max(1, s.speed(name, target)) }); err != nil {
		return err
	}
	return s.save(name, page.String())
}

func writeHead(page io.Writer, name, made string) {
	fmt.Fprintf(page, "# %s\n\nMade by %s (`make examples`), on %d cores with 2 embedded agents. The plan is plans/%s.yaml.\n",
		name, made, runtime.NumCPU(), name)
}

func (s *settings) save(name, page string) error {
	return os.WriteFile(filepath.Join(s.out, name+".md"), []byte(page), 0o644)
}

func (s *settings) runOf(name, target string) string { return filepath.Join(s.runs, name, target) }

// speed returns how many times faster than planned a target of a plan is run, or 0 if as planned.
func (s *settings) speed(name, target string) float64 {
	if k, ok := s.speeds[name+"/"+target]; ok {
		return k
	}
	return s.speeds[name]
}

// args returns the arguments of `spate` to run a plan, or one target of it.
func (s *settings) args(name, target string) []string {
	args := []string{"run", name}
	if k := s.speed(name, target); k > 0 {
		args = append(args, fmt.Sprintf("--simulate=%g", k))
	}
	if target != "" {
		args = append(args, "--only", target)
	}
	return args
}

// command returns what a user types.
func command(args []string) string { return "spate " + strings.Join(args, " ") }

// run runs `spate`. It replaces an earlier run, or leaves that run as it is if runs are kept. A run that ends with
// results and an exit code because of its verdict is not an error.
func (s *settings) run(ctx context.Context, args []string, dir string) error {
	if s.kept {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, command(args))
	c := exec.CommandContext(ctx, s.spate, append(args, "--out", dir)...)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	err := c.Run()
	if _, missing := os.Stat(filepath.Join(dir, "results.json")); err != nil && missing != nil {
		return fmt.Errorf("%s: %w", command(args), err)
	}
	return nil
}

// fingerprint identifies a plan by its content: the hash of its YAML without comments, layout and description. It does
// not cover defaults, so a new field of plans does not change it.
func fingerprint(name string) (string, error) {
	source, err := plans.Open(name)
	if err != nil {
		return "", err
	}
	var plan map[string]any
	if err := yaml.Unmarshal(source, &plan); err != nil {
		return "", err
	}
	delete(plan, "description")
	data, err := json.Marshal(plan) // keys in order
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}
