package plancmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/secret"
	"github.com/spate-load/spate/thresholds"
)

// SourceFlags change a plan before it is read.
type SourceFlags struct {
	_          struct{} `group:"Changes to the plan" typed:"only"`
	Set        []string `flag:"set" commas:"kept" help:"change the plan: <FIELD=VALUE>, for example targets.NAME.endpoints=URL, seed=7 or loads[0].duration=30s"`
	Only       []string `rare:"yes" flag:"only" commas:"kept" help:"test only the target of this <name>; may be repeated"`
	Simulate   string   `flag:"simulate" bare:"10" words:"1, 10, 20" help:"run on simulated engines instead of the targets, time compressed by the <factor> after = (10 if there is none)"`
	Thresholds []string `flag:"threshold" commas:"kept" help:"add a <condition> that all stages must meet, such as \"ttft_ms.p99 < 500\"; may be repeated"`
}

// Read reads and checks a plan, with the changes that the flags ask for. path is a file, "-" for standard
// input, or the name of a plan that ships with Spate.
func (s *SourceFlags) Read(stdin io.Reader, path string) (*plans.Plan, error) {
	data, name, err := planText(stdin, path)
	if err != nil {
		return nil, err
	}
	return s.Load(name, data)
}

// Load reads a plan with the changes that the flags ask for, and checks it.
func (s *SourceFlags) Load(name string, data []byte) (*plans.Plan, error) {
	if err := CheckThresholds(s.Thresholds); err != nil {
		return nil, err
	}
	changes := plans.Changes{Set: s.Set, Only: s.Only, Thresholds: s.Thresholds}
	if s.Simulate != "" {
		var err error
		if changes.Simulate, err = speedOf(s.Simulate); err != nil {
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
	data, err = files.ReadFile(path, maxPlanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		if shipped, openErr := plans.Open(path); openErr == nil {
			return shipped, path, nil
		}
		if strings.Contains(path, "://") {
			return nil, "", fmt.Errorf("%s is taken for a plan; a server's address comes after --target", path)
		}
		return nil, "", fmt.Errorf("cannot read the plan: %w; spate plan list has those that ship with Spate%s%s", err,
			command.DidYouMean(words.Nearest(path, plans.Shipped())), NumberHint(path))
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
