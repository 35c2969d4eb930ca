package runcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/foreign"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/draft"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// quickFlags make a plan for the common case, without a file.
type quickFlags struct {
	_    struct{} `group:"A plan from flags" typed:"only"`
	From string   `flag:"from" help:"do what this <command> of vllm bench serve, guidellm benchmark or aiperf profile does; other flags change it"`
	draft.Quick
	Stream  bool     `rare:"yes" flag:"stream" default:"true" help:"ask for streams; false: for answers in one piece, which have no TTFT, TPOT and ITL"`
	Headers []string `rare:"yes" flag:"header" commas:"kept" help:"extra request header <NAME=VALUE> (VALUE may be env:NAME or file:PATH)"`
	Body    []string `rare:"yes" flag:"body" commas:"kept" help:"extra request body field <NAME=VALUE>, VALUE in JSON, for example temperature=0"`
}

// besidePlan refuses the first flag that makes a plan.
func (q *quickFlags) besidePlan(flags *pflag.FlagSet, plan string) error {
	names := command.Names(q)
	return fmt.Errorf("--%s makes a plan, and %s is taken for one: change it by --set; an address comes after --target, values of --simulate and --web after an equals sign",
		names[slices.IndexFunc(names, flags.Changed)], plan)
}

// fieldOf returns the field of a plan that a flag sets.
func fieldOf(flag string) string {
	return cmp.Or(map[string]string{"target": "endpoints", "header": "headers"}[flag], strings.ReplaceAll(flag, "-", "_"))
}

// named replaces positions in a plan from flags, which no person sees, by the flags that were typed.
func (q *quickFlags) named(err error, flags *pflag.FlagSet) error {
	var mistakes plans.Mistakes
	if !errors.As(err, &mistakes) {
		return err
	}
	mistakes = slices.Clone(mistakes)
	for i := range mistakes {
		m := &mistakes[i]
		if m.Line == 0 {
			if m.Field != "" {
				m.Path = "--set" // which alone leaves no position
			}
			continue
		}
		m.Line, m.Column = 0, 0
		path, key, _ := strings.Cut(m.Field, `["`)
		steps := fieldName.FindAllString(path, -1)
		for n := min(2, len(steps)); n > 0; n-- { // warmup.requests is --warmup-requests
			field := strings.Join(steps[len(steps)-n:], "_")
			typed := func(flag string) bool { return flags.Changed(flag) && fieldOf(flag) == field }
			if i := slices.IndexFunc(command.Names(q), typed); i >= 0 {
				m.Path, m.Field = "--"+command.Names(q)[i], strings.TrimSuffix(key, `"]`)
				break
			}
		}
	}
	return mistakes
}

var fieldName = regexp.MustCompile(`[a-z_]+`)

// repeated are flags whose values add up.
var repeated = []string{"set", "body", "header"}

// translate sets the flags that do what the command of --from does, unless they were typed, and says so.
func (q *quickFlags) translate(cmd *cobra.Command) error {
	flags := cmd.Flags()
	args, left, err := foreign.Translate(q.From)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	typed := []string{"from"} // and a typed load is the only one
	for _, name := range command.Names(q) {
		switch {
		case !flags.Changed(name) || slices.Contains(repeated, name):
		case name == "concurrency" || name == "rate":
			typed = append(typed, "concurrency", "rate")
		default:
			typed = append(typed, name)
		}
	}
	args = append(args, beside(flags)...)
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if slices.Contains(typed, name) {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("--from: %w", err)
		}
	}
	if len(q.Concurrency)+len(q.Rate) == 0 {
		return fmt.Errorf("--from: it measures a sweep of rates: type `spate plan new --load sweep --endpoint %s "+
			"--isl %d --osl %d --out plan.yaml` and `spate run plan.yaml`, or give --concurrency or --rate beside --from",
			strings.Join(q.Targets, ","), q.ISL, q.OSL)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "In Spate: spate run%s\n", q.typed(flags))
	for _, text := range left {
		fmt.Fprintf(cmd.ErrOrStderr(), "Not translated: %s\n", text)
	}
	return nil
}

// beside takes away the typed values of flags whose values add up, and returns them as arguments: last, they win.
func beside(flags *pflag.FlagSet) (args []string) {
	for _, name := range repeated {
		if several, ok := flags.Lookup(name).Value.(pflag.SliceValue); ok {
			for _, value := range several.GetSlice() {
				args = append(args, "--"+name+"="+value)
			}
			_ = several.Replace(nil) // fails only for values that are not text
		}
	}
	return args
}

// typed returns the flags that make the plan as they are typed in a shell, without secrets.
func (q *quickFlags) typed(flags *pflag.FlagSet) (line string) {
	for _, name := range append(command.Names(q)[1:], "set") {
		f := flags.Lookup(name)
		if !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			head, text, _ := strings.Cut(value, "=")
			switch {
			case name == "rate":
				value = strings.TrimRight(strings.TrimRight(value, "0"), ".")
			case name == "api-key" && !secret.IsReference(value):
				value = "***"
			case name == "header" && secret.HeaderName(head) && !secret.IsReference(text):
				value = head + "=***"
			}
			if strings.Trim(value, plain) != "" {
				value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
			}
			line += " --" + name + "=" + value
		}
	}
	return line
}

// plain are the characters that are nothing special to a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%"

// yaml returns the plan as text.
func (q *quickFlags) yaml(flags *pflag.FlagSet) ([]byte, error) {
	quick := q.Quick
	var headersErr, bodyErr error
	quick.Headers, headersErr = headerFields(q.Headers)
	quick.Body, bodyErr = bodyFields(q.Body)
	if err := errors.Join(q.wrong(flags), headersErr, bodyErr); err != nil {
		return nil, err
	}
	quick.Targets, quick.Whole = []string{strings.Join(q.Targets, ",")}, !q.Stream
	return quick.YAML(), nil
}

// wrong returns an error if a flag is missing, or does not fit the API.
func (q *quickFlags) wrong(flags *pflag.FlagSet) error {
	switch {
	case len(q.Concurrency)+len(q.Rate) == 0:
		return errors.New("--target needs --concurrency or --rate, for example --concurrency 1,2,4")
	case slices.ContainsFunc(q.Concurrency, func(c uint) bool { return c > math.MaxUint32 }):
		return fmt.Errorf("--concurrency %d is too large: want at most 4294967295", slices.Max(q.Concurrency))
	case slices.Contains(q.Rate, math.Inf(1)):
		return errors.New("--rate inf: to send all requests at once, give --concurrency and --requests their number")
	case flags.Changed("osl") && !draft.HasOutput(q.API):
		return fmt.Errorf("--osl does not go with --api %s, whose answers have no tokens", q.API)
	}
	return nil
}

// headerFields parses NAME=VALUE pairs. Its errors do not repeat values, which may be secrets.
func headerFields(pairs []string) (map[string]string, error) {
	fields := map[string]string{}
	var errs []error
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("--header number %d: want NAME=VALUE, for example X-Team=perf", i+1))
		}
		fields[name] = value
	}
	return fields, errors.Join(errs...)
}

// bodyFields parses NAME=JSON pairs. A value that is not JSON is taken as a string, as a person would expect of
// stop=END.
func bodyFields(pairs []string) (map[string]any, error) {
	fields := map[string]any{}
	var errs []error
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("--body %q: want NAME=VALUE, VALUE in JSON, for example temperature=0",
				pair))
			continue
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			if strings.ContainsAny(text, `{["`) {
				errs = append(errs, fmt.Errorf("--body %s: %s is not JSON: %w", name, strconv.Quote(text), err))
			}
			value = text
		}
		fields[name] = value
	}
	return fields, errors.Join(errs...)
}

// withModels gives each target without a model the only model that its server lists, and says which. The error names
// each target whose server lists several models or none. withModels blocks until the servers have answered.
func withModels(
	ctx context.Context, plan *plans.Plan, secrets map[string]string, notes io.Writer,
) (*plans.Plan, error) {
	var found []string
	var unknown plans.Mistakes
	err := command.UntilInterrupted(ctx, "asking the targets for their models", func(ctx context.Context) error {
		for i, t := range plan.Targets() {
			if t.GetModel() != "" || len(t.GetEndpoints()) == 0 {
				continue
			}
			model, problem := onlyModel(ctx, t, secrets)
			if problem != "" {
				unknown = append(unknown, plan.Mistake(fmt.Sprintf("targets[%d]", i), "has no model, and "+problem+
					": give the name under which it is served (--model, or model in a plan)"))
				continue
			}
			fmt.Fprintf(notes, "Target %s serves one model: %s\n", t.GetName(), model)
			found = append(found, fmt.Sprintf("targets[%d].model=%s", i, strconv.Quote(model)))
		}
		return context.Cause(ctx)
	})
	if err := cmp.Or(err, unknown.OrNil()); err != nil {
		return nil, err
	}
	return plan.With(found...)
}

// onlyModel asks a target which model it serves. problem says why that is not known.
func onlyModel(ctx context.Context, t *spatev1.Target, secrets map[string]string) (model, problem string) {
	models, err := modelsOf(ctx, t, secrets)
	switch {
	case err != nil:
		return "", t.GetEndpoints()[0] + " does not say which it serves: " + err.Error()
	case len(models) == 0:
		return "", t.GetEndpoints()[0] + " lists none"
	case len(models) > 1:
		return "", fmt.Sprintf("%s lists %d (%s)", t.GetEndpoints()[0], len(models),
			words.Shorten(lists.Each(models, func(m api.Model) string { return strconv.Quote(m.ID) }), 5))
	case strings.ContainsFunc(models[0].ID, func(r rune) bool { return !strconv.IsPrint(r) }):
		return "", t.GetEndpoints()[0] + " lists one whose name cannot be printed"
	}
	return models[0].ID, ""
}
