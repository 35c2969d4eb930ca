package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/plans"
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

// listPlans prints a line for each shipped plan.
func listPlans(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range plans.Shipped() {
		text, err := plans.Open(name)
		if err != nil {
			return err
		}
		plan, err := plans.Load(name, text, plans.Options{})
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, stageWords(plan), plan.Proto().GetDescription())
	}
	return t.Flush()
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
them, as far as the plan says; what depends on the server is n/a. Nothing is started, and no file of a workload is read.`,
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
	return showPlan(cmd.OutOrStdout(), plan)
}

// showPlan prints the table of stages and their sums.
func showPlan(w io.Writer, plan *plans.Plan) error {
	outline, err := plan.Outline()
	if err != nil {
		return err
	}
	if d := plan.Proto().GetDescription(); d != "" {
		fmt.Fprintf(w, "%s\n\n", d)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "stage\ttarget\tworkload\tload\trequests\ttime\t")
	first := uint64(0)
	var total plans.Estimate
	for _, s := range outline {
		e := plans.EstimateOf(s)
		number := fmt.Sprint(first)
		if e.Stages > 1 {
			number = fmt.Sprintf("%d-%d", first, first+e.Stages-1)
		}
		first += e.Stages
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", number, s.GetTarget().GetName(), s.GetWorkload().GetName(), plans.LoadWords(s.GetLoad()),
			requestWords(e), timeWords(e))
		total = total.Plus(e)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s; requests: %s; time: %s\n", stageWords(plan), requestWords(total), timeWords(total))
	return err
}

// requestWords is a number of requests, as far as it is known.
func requestWords(e plans.Estimate) string {
	return knownWords(e.Requests != nil, e.AtMost, func() string { return fmt.Sprint(*e.Requests) })
}

// timeWords is a time in which requests are started, as far as it is known.
func timeWords(e plans.Estimate) string {
	return knownWords(e.Time != nil, e.AtMost, func() string { return e.Time.Round(100 * time.Millisecond).String() })
}

func knownWords(known, atMost bool, words func() string) string {
	switch {
	case !known:
		return "n/a"
	case atMost:
		return "at most " + words()
	}
	return words()
}

// stageWords says how many stages a plan has.
func stageWords(plan *plans.Plan) string {
	outline, err := plan.Outline()
	if err != nil {
		return "n/a"
	}
	var total plans.Estimate
	for _, s := range outline {
		total = total.Plus(plans.EstimateOf(s))
	}
	words := count(total.Stages, "stage")
	if total.AtMost {
		return "up to " + words
	}
	return words
}

// draftFlags are the flags of `spate plan new`.
type draftFlags struct {
	draft plans.Draft
	out   string
	ask   bool
}

func newPlanNew() *cobra.Command {
	f := &draftFlags{}
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Write a commented plan from a few answers or flags",
		Long: `Write a first plan, with comments that say what else there is. On a terminal and without flags it asks; every question has an answer that
Enter takes.

Workloads:
` + kindHelp(plans.DraftWorkloads()) + `
Loads:
` + kindHelp(plans.DraftLoads()),
		Example: `  spate plan new
  spate plan new --endpoint http://10.0.0.5:8000 --model Qwen/Qwen3-32B --load rate --values 2,4,8 --out plan.yaml
  spate plan new --workload mooncake --file trace.jsonl --load replay --values 10`,
		Args: arguments(cobra.NoArgs),
		RunE: f.run,
	}
	d, flags := &f.draft, cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&d.Name, "name", "", "name of the plan (default my-plan)")
	flags.StringSliceVar(&d.Endpoints, "endpoint", nil, "base `URL` of an endpoint under test (default: the built-in simulator)")
	flags.StringVar(&d.Model, "model", "", "model name to ask for")
	flags.StringVar(&d.API, "api", "", "API of the endpoints: chat or completions (default chat)")
	flags.StringVar(&d.APIKey, "api-key", "", "where the API key is: env:NAME or file:PATH")
	flags.StringVar(&d.Workload, "workload", "", "kind of workload, see above (default random)")
	flags.StringVar(&d.File, "file", "", "`file` of the workload")
	flags.Uint32Var(&d.ISL, "isl", 0, "input sequence length in tokens (default 1000)")
	flags.Uint32Var(&d.OSL, "osl", 0, "output sequence length in tokens (default 100)")
	flags.StringVar(&d.Load, "load", "", "kind of load, see above (default concurrency)")
	flags.Float64SliceVar(&d.Values, "values", nil, "`values` of the load: concurrencies, rates, or the bounds of a search or ramp")
	flags.DurationVar(&d.TTFT, "ttft", 0, "longest TTFT that a request may have")
	flags.DurationVar(&d.TPOT, "tpot", 0, "longest TPOT that a request may have")
	flags.StringVar(&f.out, "out", "", "`file` to write (default: standard output)")
	return cmd
}

// kindHelp lists kinds with what each is.
func kindHelp(names, help []string) string {
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "  %-12s %s\n", name, help[i])
	}
	return b.String()
}
