package plancmd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
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

// Limits of files whose content becomes a part of the plan, in bytes.
const (
	maxAskFile  = 1 << 20   // tools, or a schema
	maxFormFile = 512 << 10 // of a form
)

// withAskFiles writes the content of files with tools, with schemas and of forms into the plan. The error lists all
// files that cannot be used.
func withAskFiles(plan *plans.Plan) (*plans.Plan, error) {
	var found []string
	var mistakes plans.Mistakes
	for _, f := range plan.AskFiles() {
		text, err := askFile(f)
		if err != nil {
			at := f.Field[:strings.LastIndex(f.Field, ".")] + ".path"
			mistakes = append(mistakes, plan.Mistake(at, err.Error()))
			continue
		}
		found = append(found, f.Field+"="+text)
	}
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return plan.With(found...)
}

// askFile reads a file of a form, or one with a list of tools or with a schema, and returns it in the form of an
// assignment: JSON on one line is YAML.
func askFile(f plans.File) (string, error) {
	if strings.HasSuffix(f.Field, ".content") {
		data, err := files.ReadFile(f.Path, maxFormFile)
		if err == nil && len(data) == 0 {
			err = fmt.Errorf("%s is empty", f.Path)
		}
		return base64.StdEncoding.EncodeToString(data), err
	}
	data, err := files.ReadFile(f.Path, maxAskFile)
	if err != nil {
		return "", err
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return "", fmt.Errorf("%s is not JSON: %w", f.Path, err)
	}
	_, list := value.([]any)
	_, object := value.(map[string]any)
	switch tools := strings.HasSuffix(f.Field, ".definitions"); {
	case tools && !list:
		return "", fmt.Errorf("%s is not a list of tools", f.Path)
	case !tools && !object:
		return "", fmt.Errorf("%s is not a JSON Schema, an object", f.Path)
	}
	var one bytes.Buffer
	e := json.NewEncoder(&one)
	e.SetEscapeHTML(false) // as it was
	err = e.Encode(value)
	return strings.TrimSpace(one.String()), err
}
