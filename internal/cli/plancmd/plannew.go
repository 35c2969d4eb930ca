package plancmd

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/draft"
)

// draftFlags are the flags of `spate plan new`.
type draftFlags struct {
	Draft draft.Answers
	Out   string `flag:"out" help:"<file> to write (default: standard output)"`
}

func newPlanNew() *cobra.Command {
	f := &draftFlags{}
	cmd := manual.New("new", cobra.NoArgs, f.run)
	cmd.Long = strings.NewReplacer("WORKLOADS", kindHelp(draft.Workloads()), "LOADS", kindHelp(draft.Loads())).
		Replace(cmd.Long)
	cmd.Flags().SortFlags = false
	command.Declare(cmd.Flags(), f, "APIS="+strings.Join(registry.Names(), ", "))
	return cmd
}

// kindHelp lists kinds with their descriptions.
func kindHelp(names, help []string) string {
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = fmt.Sprintf("  %-12s %s", name, help[i])
	}
	return strings.Join(lines, "\n")
}

func (f *draftFlags) run(cmd *cobra.Command, _ []string) error {
	if err := f.check(cmd.Flags()); err != nil {
		return command.BadInput(err)
	}
	text, err := f.Draft.YAML()
	if err != nil {
		return command.BadInput(err)
	}
	if f.Out == "" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	return f.save(cmd, text)
}

// save writes the plan to its file, which must not exist yet.
func (f *draftFlags) save(cmd *cobra.Command, text []byte) error {
	file, err := os.OpenFile(f.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return command.BadInputf("--out %s: the file is there already: name another one", f.Out)
	}
	if err != nil {
		return command.BadInputf("--out: %w", err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is written. Next: spate plan show %s, spate run %s --simulate, spate run %s\n",
		f.Out, f.Out, f.Out, f.Out)
	return nil
}

// check finds everything that is wrong with the flags, in terms of flags.
func (f *draftFlags) check(flags *pflag.FlagSet) error {
	var errs []error
	for name, value := range map[string]bool{"isl": f.Draft.ISL == 0, "osl": f.Draft.OSL == 0,
		"ttft": f.Draft.TTFT <= 0, "tpot": f.Draft.TPOT <= 0} {
		if value && flags.Changed(name) {
			errs = append(errs, fmt.Errorf("--%s %s: want more than 0", name, flags.Lookup(name).Value))
		}
	}
	needs := draft.NeedsFile(f.Draft.Workload)
	switch {
	case needs && f.Draft.File == "":
		errs = append(errs, fmt.Errorf("the workload %s takes its requests from a file: give --file", f.Draft.Workload))
	case !needs && f.Draft.File != "":
		errs = append(errs, errors.New("--file goes with a workload that takes its requests from a file: give --workload, too"))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return draftMistakes(f.Draft)
}

// draftMistakes returns the mistakes that a draft's plan would have. Their positions mean nothing to a person who has
// not seen the plan, so each mistake starts with its flags.
func draftMistakes(d draft.Answers) error {
	text, err := d.YAML()
	if err != nil {
		return err
	}
	var mistakes plans.Mistakes
	if _, err = plans.Load("plan", text, plans.Options{}); !errors.As(err, &mistakes) {
		return err
	}
	say := func(m plans.Mistake) error { return errors.New(flagOf(m.Field) + m.Message) }
	return errors.Join(lists.Each(mistakes, say)...)
}

// flagOf returns the flags that a field of the plan comes from, for the start of a message.
func flagOf(field string) string {
	for _, f := range [][2]string{
		{"name", "--name"}, {"targets[0].endpoints", "--endpoint"}, {"targets[0].api_key", "--api-key"},
		{"targets[0].api", "--api"},
		{"targets[0].model", "--model"}, {"workloads[0]", "--workload, --isl, --osl"}, {"slo", "--ttft, --tpot"},
		{"loads[0]", "--load, --values"},
	} {
		if strings.HasPrefix(field, f[0]) {
			return f[1] + ": " + field + ": "
		}
	}
	return field + ": "
}
