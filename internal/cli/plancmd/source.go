package plancmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/bounded"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/internal/nearest"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/secret"
	"github.com/spate-load/spate/thresholds"
)

// SourceFlags change a plan before it is read.
type SourceFlags struct {
	set      []string
	only     []string
	simulate string
	// Conditions besides those of the plan.
	thresholds []string
	// Send the whole load even to targets whose requests all fail.
	keepGoing bool
	// Which agents take part.
	labels []string
	count  uint32
}

// simulateSpeed is the compression of time of --simulate without a number: fast enough to be useful, and slow enough
// for two cores.
const simulateSpeed = "10"

// Add adds the flags to a command.
func (s *SourceFlags) Add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.set, "set", nil,
		"change the plan: `FIELD=VALUE`, for example targets.NAME.endpoints=URL, seed=7 or loads[0].duration=30s")
	flags.StringArrayVar(&s.only, "only", nil,
		"test only the target of this `name`; may be repeated")
	flags.StringVar(&s.simulate, "simulate", "",
		"run on simulated engines instead of the targets, time compressed by the `factor` after = ("+
			simulateSpeed+" if there is none)")
	flags.Lookup("simulate").NoOptDefVal = simulateSpeed
	flags.StringArrayVar(&s.thresholds, "threshold", nil,
		"add a `condition` that all stages must meet, such as \"ttft_ms.p99 < 500\"; may be repeated")
	settings.TypedOnly(flags, "set", "only", "simulate", "threshold")
}

// AddFailFast adds the flag for commands that run the plan.
func (s *SourceFlags) AddFailFast(flags *pflag.FlagSet) {
	flags.BoolVar(&s.keepGoing, "no-fail-fast", false,
		"continue with a target whose first requests all fail: as fail_fast: false in the plan")
	settings.TypedOnly(flags, "no-fail-fast")
}

// AddSelection adds the flags that select agents, for commands that run the plan.
func (s *SourceFlags) AddSelection(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.labels, "agent-label", nil,
		"only agents with this label (`NAME=VALUE`) take part; may be repeated: as agents.labels in the plan")
	flags.Uint32Var(&s.count, "agent-count", 0,
		"this many agents take part, and the run waits for them: as agents.count in the plan (0: as the plan says)")
}

// selection returns the changes to the plan by the flags that select agents.
func (s *SourceFlags) selection() (set []string, err error) {
	labels, err := naming.Labels(s.labels)
	if err != nil {
		return nil, fmt.Errorf("--agent-label %w", err)
	}
	if len(labels) > 0 {
		text, err := json.Marshal(labels) // JSON is YAML
		if err != nil {
			return nil, err
		}
		set = append(set, "agents.labels="+string(text))
	}
	if s.count > 0 {
		set = append(set, fmt.Sprintf("agents.count=%d", s.count))
	}
	return set, nil
}

// Read reads and checks a plan, with the changes that the flags ask for. path is a file, "-" for standard input, or the
// name of a plan that ships with Spate.
func (s *SourceFlags) Read(stdin io.Reader, path string) (*plans.Plan, error) {
	data, name, err := planText(stdin, path)
	if err != nil {
		return nil, err
	}
	return s.Load(name, data)
}

// Load reads a plan with the changes that the flags ask for, and checks it.
func (s *SourceFlags) Load(name string, data []byte) (*plans.Plan, error) {
	if err := CheckThresholds(s.thresholds); err != nil {
		return nil, err
	}
	selection, err := s.selection()
	if err != nil {
		return nil, err
	}
	changes := plans.Changes{Set: slices.Concat(s.set, selection), Only: s.only, Thresholds: s.thresholds}
	if s.keepGoing {
		changes.Set = append(changes.Set, "fail_fast=false")
	}
	if s.simulate != "" {
		if changes.Simulate, err = speedOf(s.simulate); err != nil {
			return nil, err
		}
	}
	plan, err := plans.Load(name, data, plans.Options{Lookup: secret.System, Discover: true, Changes: changes})
	if err != nil {
		return nil, err
	}
	return withAskFiles(plan)
}

// CheckThresholds checks the conditions of --threshold.
func CheckThresholds(conditions []string) error {
	for _, that := range conditions {
		if _, err := thresholds.Parse(that, ""); err != nil {
			return fmt.Errorf("--threshold %q: %w", that, err)
		}
	}
	return nil
}

// planText returns the text of a plan and its name for messages.
func planText(stdin io.Reader, path string) (data []byte, name string, err error) {
	if path == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxPlanBytes))
		if err != nil {
			return nil, "", fmt.Errorf("cannot read the plan: %w", err)
		}
		return data, "<stdin>", nil
	}
	data, err = bounded.ReadFile(path, maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		if shipped, openErr := plans.Open(path); openErr == nil {
			return shipped, path, nil
		}
		return nil, "", fmt.Errorf("cannot read the plan: %w; plans that ship with Spate: %s%s%s", err,
			strings.Join(plans.Shipped(), ", "), command.DidYouMean(nearest.To(path, plans.Shipped())), NumberHint(path))
	}
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the plan: %w", err)
	}
	return data, path, nil
}

// NumberHint helps a person who wrote --simulate 20: a flag with an optional value takes it only after "=".
func NumberHint(path string) string {
	if _, err := speedOf(path); err == nil {
		return "; a factor comes after an equals sign: --simulate=" + path
	}
	return ""
}

// maxPlanBytes is the most that is read of a plan: more than a plan may have, so that a too large plan is detected.
const maxPlanBytes = 8 << 20

// maxSpeed is the strongest compression of time, as in plans.
const maxSpeed = 10_000

// speedOf parses the factor of --simulate.
func speedOf(text string) (float64, error) {
	speed, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	if err != nil || !(speed >= 1) || speed > maxSpeed {
		return 0, fmt.Errorf("--simulate=%s: want a factor from 1 to %d, such as --simulate=20", text, maxSpeed)
	}
	return speed, nil
}
