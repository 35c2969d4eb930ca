// Package plancmd has the commands about plans, and reads plans and their files for all commands.
package plancmd

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

//go:embed help.txt
var manual command.Manual

func newPlanList() *cobra.Command {
	return manual.New("list", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		return listPlans(cmd.OutOrStdout())
	})
}

// listPlans prints the name, the number of stages and the description of each shipped plan.
func listPlans(w io.Writer) error {
	t := table.New(table.Words("plan", "description"))
	for _, name := range plans.Shipped() {
		text, err := plans.Open(name)
		if err != nil {
			return err
		}
		plan, err := plans.Load(name, text, plans.Options{})
		if err != nil {
			return fmt.Errorf("a shipped plan is wrong: %w", err)
		}
		t.Add(name, fmt.Sprintf("%s (%s)", plan.Proto().GetDescription(), plans.StageWords(plan)))
	}
	return t.Write(w, 0)
}

// NewPlan makes `spate plan` and its subcommands.
func NewPlan() *cobra.Command {
	cmd := manual.New("plan", cobra.NoArgs, command.ShowHelp)
	cmd.AddCommand(newPlanList(), newPlanShow(), newPlanValidate(), newPlanNew(), newPlanSchema())
	return cmd
}

func newPlanSchema() *cobra.Command {
	return manual.New("schema", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		_, err := cmd.OutOrStdout().Write(plans.Schema())
		return err
	})
}

// showFlags are the flags of `spate plan show`.
type showFlags struct {
	YAML bool `flag:"yaml" help:"print the plan itself, with the changes of --set and --simulate"`
	SourceFlags
}

func newPlanShow() *cobra.Command {
	f := &showFlags{}
	return manual.New("show", cobra.ExactArgs(1), f.run, f)
}

func (f *showFlags) run(cmd *cobra.Command, args []string) error {
	plan, err := f.Read(cmd.InOrStdin(), args[0])
	if err != nil {
		return command.BadInput(err)
	}
	if f.YAML {
		_, err := cmd.OutOrStdout().Write(plan.Source())
		return err
	}
	resources, err := Gather(cmd.Context(), plan, command.DatasetDir(), cmd.ErrOrStderr(), true)
	if command.Stopped(err) {
		return err
	}
	stages := plan.Outline()
	if err == nil {
		var filled []*spatev1.Stage
		if filled, err = WithRows(plan, resources); err == nil {
			stages = filled
		}
	}
	// A plan whose files are wrong is still shown, without the contents of the files.
	shown := showPlan(cmd.OutOrStdout(), plan, stages)
	terminal.Caution(cmd.ErrOrStderr(), plan)
	return errors.Join(shown, command.BadInput(err))
}

// showPlan prints the table of stages and their totals.
func showPlan(w io.Writer, plan *plans.Plan, stages []*spatev1.Stage) error {
	about := []string{plan.Proto().GetDescription(), plans.SimulationWords(plan)}
	for _, text := range about {
		if text != "" {
			fmt.Fprintf(w, "%s\n\n", strings.Join(words.Wrap(text, terminal.Width(w)), "\n"))
		}
	}
	noun := plans.ArrivalNoun(stages)
	speed, _ := plan.Compression()
	t := table.New(table.Numbers("stage"), table.Words("target", "workload", "load"), table.Numbers(noun, "time"))
	first := uint64(1)
	for _, s := range stages {
		one := plans.TotalOf([]*spatev1.Stage{s})
		number := fmt.Sprint(first)
		if one.Stages > 1 {
			number = fmt.Sprintf("%d-%d", first, first+one.Stages-1)
		}
		first += one.Stages
		t.Add(number, s.GetTarget().GetName(), s.GetWorkload().GetName(),
			results.WordsInPlanTime(loadpoint.Words(s.GetLoad()), speed), one.ArrivalWords(plans.InTable),
			one.TimeWords(plans.InTable))
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	all := plans.TotalOf(stages)
	fmt.Fprintf(w, "\n%s; %s: %s; time: %s\n", all.StageWords(), noun, all.ArrivalWords(plans.InWords),
		all.TimeWords(plans.InWords))
	if text := machineWords(plan); text != "" {
		fmt.Fprintln(w, text)
	}
	return nil
}

func newPlanValidate() *cobra.Command {
	source := &SourceFlags{}
	return manual.New("validate", cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) error {
		return validateAll(cmd, source, args)
	}, source)
}

// validateAll checks plans one after another, and reports on each as soon as it is checked.
func validateAll(cmd *cobra.Command, source *SourceFlags, paths []string) error {
	var failed error
	for _, path := range paths {
		err := validate(cmd, source, path)
		if command.Stopped(err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v\n", err)
			failed = command.BadInput(command.ErrPrinted)
		}
	}
	return failed
}

func validate(cmd *cobra.Command, source *SourceFlags, path string) error {
	plan, err := source.Read(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	resources, err := Gather(cmd.Context(), plan, command.DatasetDir(), cmd.ErrOrStderr(), false)
	if err != nil {
		return err
	}
	if _, err := WithRows(plan, resources); err != nil {
		return err
	}
	text := plans.StageWords(plan)
	if words := machineWords(plan); words != "" {
		text += "; " + words
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", path, text)
	terminal.Caution(cmd.ErrOrStderr(), plan)
	return nil
}

// RegionsOf returns the regions of a plan, sorted.
func RegionsOf(plan *plans.Plan) []string { return slices.Sorted(maps.Keys(plan.Proto().GetRegions())) }

// agentWords says which agents a plan asks for: "10 with pool=big, region=eu". Empty: any.
func agentWords(s *spatev1.AgentSelector) string {
	switch list := strings.Join(naming.LabelTexts(s.GetLabels()), ", "); {
	case s.GetCount() > 0 && list != "":
		return fmt.Sprintf("%d with %s", s.GetCount(), list)
	case s.GetCount() > 0:
		return strconv.Itoa(int(s.GetCount()))
	case list != "":
		return "all with " + list
	}
	return ""
}

// machineWords says which agents a plan asks for, and what happens if it loses one. Empty: it says nothing of both.
func machineWords(plan *plans.Plan) string {
	var parts []string
	if text := agentWords(plan.Proto().GetAgents()); text != "" {
		parts = append(parts, "agents: "+text)
	}
	if policy := plan.Proto().GetOnAgentLoss(); policy != "" {
		parts = append(parts, "on_agent_loss: "+policy)
	}
	return strings.Join(parts, "; ")
}
