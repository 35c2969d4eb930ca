package spatecmd

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func newPlans() *cobra.Command {
	return &cobra.Command{
		Use:     "plans",
		Short:   "List the plans that ship with Spate",
		Example: "  spate plans\n  spate plan show quickstart\n  spate run quickstart",
		Args:    arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listPlans(cmd.OutOrStdout())
		},
	}
}

// listPlans prints the name, the number of stages and the description of each shipped plan.
func listPlans(w io.Writer) error {
	var names, texts []string
	for _, name := range plans.Shipped() {
		text, err := plans.Open(name)
		if err != nil {
			return err
		}
		plan, err := plans.Load(name, text, plans.Options{})
		if err != nil {
			return fmt.Errorf("a shipped plan is wrong: %w", err)
		}
		names = append(names, name)
		texts = append(texts, fmt.Sprintf("%s (%s)", plan.Proto().GetDescription(), stageWords(plan)))
	}
	return list(w, names, texts)
}

func newPlan() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show, make and describe plans",
		Args:  arguments(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPlanShow(), newPlanNew(), newPlanSchema())
	return cmd
}

func newPlanSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of plans, for editors",
		Long: `Print the JSON Schema of plans. An editor that knows it completes fields, explains them and marks mistakes while you type. With the YAML
language server, save it beside your plans and begin each of them with the line

  # yaml-language-server: $schema=plan.schema.json`,
		Example: "  spate plan schema > plan.schema.json",
		Args:    arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(plans.Schema())
			return err
		},
	}
}

// showFlags are the flags of `spate plan show`.
type showFlags struct {
	source sourceFlags
	yaml   bool
}

func newPlanShow() *cobra.Command {
	f := &showFlags{}
	cmd := &cobra.Command{
		Use:   "show PLAN.yaml",
		Short: "Show the stages of a plan with their counts and times",
		Long: `Show what a plan expands into: each stage with its target, workload, load, the requests it will send and the time in which it will start
them, as far as the plan and its workloads' files say; what depends on the server is n/a, ~ is about and ≤ at most. Times are those in which requests are started, with the pauses between stages, without the wait for the
last answers. Nothing is started.`,
		Example: "  spate plan show quickstart\n  spate plan show plan.yaml --set seed=7\n  spate plan show quickstart --yaml > my-plan.yaml",
		Args:    arguments(cobra.ExactArgs(1)),
		RunE:    f.run,
	}
	cmd.Flags().BoolVar(&f.yaml, "yaml", false, "print the plan itself, with the changes of --set and --simulate")
	f.source.add(cmd.Flags())
	return cmd
}

func (f *showFlags) run(cmd *cobra.Command, args []string) error {
	plan, err := f.source.read(cmd.InOrStdin(), args[0])
	if err != nil {
		return badInput(err)
	}
	if f.yaml {
		_, err := cmd.OutOrStdout().Write(plan.Source())
		return err
	}
	resources, err := gather(cmd.Context(), plan, settings.DatasetDir(), cmd.ErrOrStderr(), true)
	stages := plan.Outline()
	if err == nil {
		stages = withRows(plan, resources)
	} else if stopped(err) {
		return err
	}
	// A plan whose files are wrong is still shown, without the contents of the files.
	shown := showPlan(cmd.OutOrStdout(), plan, stages)
	caution(cmd.ErrOrStderr(), plan)
	return errors.Join(shown, badInput(err))
}

// withRows expands a plan with the contents of its files. The addresses of simulators are placeholders.
func withRows(plan *plans.Plan, resources plans.Resources) []*spatev1.Stage {
	resources.Endpoints = map[string][]string{}
	for _, t := range plan.Simulated() {
		resources.Endpoints[t.GetName()] = []string{"http://127.0.0.1"}
	}
	stages, err := plan.Stages(resources)
	if err != nil {
		return plan.Outline()
	}
	return stages
}

// showPlan prints the table of stages and their totals.
func showPlan(w io.Writer, plan *plans.Plan, stages []*spatev1.Stage) error {
	about := []string{plan.Proto().GetDescription(), simulationWords(plan)}
	for _, text := range about {
		if text != "" {
			fmt.Fprintf(w, "%s\n\n", strings.Join(wrap(text, terminalWidth(w)), "\n"))
		}
	}
	noun := arrivalNoun(stages)
	t := &table{right: []bool{true, false, false, false, true, true}}
	t.row("stage", "target", "workload", "load", noun, "time")
	first := uint64(0)
	for _, s := range stages {
		one := outlookOf([]*spatev1.Stage{s})
		number := fmt.Sprint(first)
		if one.stages > 1 {
			number = fmt.Sprintf("%d-%d", first, first+one.stages-1)
		}
		first += one.stages
		t.row(number, s.GetTarget().GetName(), s.GetWorkload().GetName(), plans.LoadWords(s.GetLoad()),
			one.arrivalWords(inTable), one.timeWords(inTable))
	}
	if err := t.write(w); err != nil {
		return err
	}
	all := outlookOf(stages)
	fmt.Fprintf(w, "\n%s; %s: %s; time: %s\n", all.stageWords(), noun, all.arrivalWords(inWords),
		all.timeWords(inWords))
	if text := machineWords(plan); text != "" {
		fmt.Fprintln(w, text)
	}
	return nil
}
