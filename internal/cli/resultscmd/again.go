package resultscmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/show"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// againFlags say how stages of a run run again.
type againFlags struct {
	Again     bool          `flag:"again" typed:"only" help:"run a random tenth of the stages again, on the plan's targets"`
	Target    []string      `flag:"target" typed:"only" help:"the same at this base <URL>, or <NAME=URL> if there are several targets"`
	Budget    time.Duration `flag:"budget" default:"10m" help:"run one of them 4 times, and more or oftener only within this time"`
	Tolerance string        `flag:"tolerance" default:"1.5%" help:"largest difference with which a claim holds"`
	Seed      uint64        `flag:"seed" help:"of the choice of stages (default: random)"`
	Out       string        `flag:"out" help:"keep the run directories in this <directory>"`

	tolerance float64
}

func (f *againFlags) on() bool { return f.Again || len(f.Target) > 0 }

func (f *againFlags) check() (err error) {
	var ok bool
	if f.tolerance, ok = compare.Tolerance(f.Tolerance); !ok {
		return fmt.Errorf("--tolerance %q: want a percentage from 0%% to below 100%%, for example 1.5%%", f.Tolerance)
	}
	f.Seed = cmp.Or(f.Seed, rand.Uint64N(1e6)+1)
	return nil
}

// again runs some stages again, and checks whether what the run claims of them holds.
func (f *verifyFlags) again(cmd *cobra.Command, v *verification) error {
	changes, n, of, err := f.Again.choose(v)
	if err != nil {
		return command.BadInput(err)
	}
	out := f.Again.Out
	if out == "" {
		if out, err = os.MkdirTemp("", "spate-verify-"); err != nil {
			return err
		}
		defer os.RemoveAll(out)
	}
	var opened opener
	defer opened.close()
	before, err := opened.open(cmd.Context(), v.dir)
	if err != nil {
		return err
	}
	now := compare.Side{Name: "now"}
	begun := time.Now()
	for round := 1; round <= compare.MostRounds; round++ {
		fmt.Fprintf(cmd.ErrOrStderr(), "Seed %d: %d of %s again, round %d\n", f.Again.Seed, n,
			words.Count(uint64(of), "load"), round)
		to := filepath.Join(out, fmt.Sprintf("%s-again-%d", v.Run, round))
		run := f.run()
		run.SetArgs(append([]string{"-", "--out", to, "--fail-on", "never", "--no-progress"}, changes...))
		run.SetIn(bytes.NewReader(v.record.GetPlanYaml()))
		run.SetOut(io.Discard)
		run.SetErr(cmd.ErrOrStderr())
		run.SilenceErrors, run.SilenceUsage = true, true
		if err := run.ExecuteContext(cmd.Context()); err != nil && command.ExitCode(err) != command.ExitMissed {
			return fmt.Errorf("the stages did not run again: %w", err)
		}
		one, err := opened.open(cmd.Context(), to)
		if err != nil {
			return err
		}
		if now.Runs = append(now.Runs, &one.Run); round < compare.FewestRounds {
			continue
		}
		v.Again, err = compare.Of([]compare.Side{{Name: v.Run, Runs: []*compare.Run{&before.Run}}, now},
			compare.Options{Tolerance: f.Again.tolerance, Again: true})
		if err != nil {
			return err
		}
		if !v.Again.Sides[0].Open() || time.Since(begun) > f.Again.Budget {
			break
		}
	}
	v.claims(f.Again.Seed)
	return nil
}

// claims checks whether what the run claims of the stages that ran again holds.
func (v *verification) claims(seed uint64) {
	var wrong, holds []string
	against, code := &v.Again.Sides[0], command.ExitFailed
	for i := range against.Stages {
		s := &against.Stages[i]
		outcome, by := s.Claim()
		if by == nil {
			wrong = append(wrong, show.StageName(s)+": it has no number to compare")
			continue
		}
		text := fmt.Sprintf("%s: %s %s", show.StageName(s), by.Metric, show.Change(by))
		switch outcome {
		case compare.Same:
			holds = append(holds, text)
		case compare.Worse, compare.Better:
			code = command.ExitMissed
			wrong = append(wrong, fmt.Sprintf("%s: the target is %s than the run claims", text, outcome))
		default:
			wrong = append(wrong, text+": chance leaves open whether the claim holds: give a longer --budget, or a larger --tolerance")
		}
	}
	for _, l := range against.Refused {
		wrong = append(wrong, l.Stage+": "+l.Why)
	}
	v.add("again", wrong, "With seed %d, the claim holds: %s", seed, strings.Join(holds, "; "))
	if v.code != 0 {
		v.code = code
	}
}

// choose returns the changes of the plan for a random tenth of its loads, and how many of how many that are.
func (f *againFlags) choose(v *verification) (changes []string, n, of int, err error) {
	left := v.loads()
	if of = len(left); of == 0 {
		return nil, 0, 0, errors.New("all stages are probes of searches, whose loads follow from what was measured: " +
			"run the plan again, and compare")
	}
	random := rand.New(rand.NewPCG(f.Seed, f.Seed))
	random.Shuffle(of, func(i, j int) { left[i], left[j] = left[j], left[i] })
	var loads, targets []string
	time := 0.0
	for _, s := range left[:(of+9)/10] {
		if r := results.StageAt(v.result.Stages, s.GetIndex()); r != nil && r.DurationS != nil {
			time += *r.DurationS * compare.FewestRounds
		}
		if len(loads) > 0 && time > f.Budget.Seconds() {
			break
		}
		load, err := v.loadOf(s)
		if err != nil {
			return nil, 0, 0, err
		}
		loads, targets = append(loads, load), words.AppendOnce(targets, s.GetTarget().GetName())
	}
	changes = []string{"--set", "loads=[" + strings.Join(loads, ",") + "]"}
	for _, name := range targets {
		changes = append(changes, "--only", name)
	}
	for _, to := range f.Target {
		name, url, named := strings.Cut(to, "=")
		if all := v.plan.Targets(); !named && len(all) == 1 {
			name, url = all[0].GetName(), to
		} else if !named {
			return nil, 0, 0, fmt.Errorf("--target %s: the run has %d targets: give NAME=URL", to, len(all))
		}
		if !slices.Contains(targets, name) {
			continue // none of its stages runs again
		}
		changes = append(changes, "--set", "targets."+name+".endpoints=["+strconv.Quote(url)+"]")
	}
	return changes, len(loads), of, nil
}

// loads returns the first stage of each load that is not a probe of a search.
func (v *verification) loads() (first []*spatev1.Stage) {
	seen := map[string]bool{}
	for _, rec := range v.stages {
		s, load := rec.GetStage(), proto.CloneOf(rec.GetStage().GetLoad())
		load.Repeat = 0
		key := s.GetTarget().GetName() + "\n" + s.GetWorkload().GetName() + "\n" + loadpoint.Words(load)
		if s.GetProbe() == nil && !seen[key] {
			seen[key], first = true, append(first, s)
		}
	}
	return first
}

// numbers are numbers that JSON of protobuf has as text.
var numbers = regexp.MustCompile(`:\s*"(\d+)"`)

// loadOf returns a load, in JSON, that gives a stage and nothing else.
func (v *verification) loadOf(s *spatev1.Stage) (string, error) {
	for _, planned := range v.plan.Proto().GetLoads() {
		for _, point := range loadpoint.WithoutRepeats(planned) {
			one := proto.CloneOf(planned)
			one.Repeats, one.Workloads, one.Targets = 0, nil, nil
			if one.Concurrency, one.Rate = nil, nil; point.Phases == nil {
				one.ConcurrencyRange, one.RateRange = nil, nil
				if point.Concurrency > 0 {
					one.Concurrency = []uint32{point.Concurrency}
				} else if point.Rate > 0 {
					one.Rate = []float64{point.Rate}
				}
			}
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(one)
			if err != nil {
				return "", err
			}
			load := fmt.Sprintf("%s,workloads: [%q],targets: [%q]}", strings.TrimSuffix(numbers.ReplaceAllString(string(text),
				":$1"), "}"), s.GetWorkload().GetName(), s.GetTarget().GetName())
			alone, err := plans.Load("plan.yaml", v.record.GetPlanYaml(), plans.Options{Discover: true,
				Changes: plans.Changes{Set: []string{"loads=[" + load + "]"}, Only: []string{s.GetTarget().GetName()}}})
			if err != nil {
				return "", err
			}
			if stages := alone.Outline(); len(stages) == 1 && stages[0].GetSeed() == s.GetSeed() {
				return load, nil
			}
		}
	}
	return "", fmt.Errorf("stage %d cannot run alone: run the plan again, and compare", s.GetIndex()+1)
}
