package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/cmd/internal/settings"
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
			return fmt.Errorf("a shipped plan is wrong: %w", err)
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
them, as far as the plan and its workloads' files say; what depends on the server is n/a. Nothing is started.`,
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
	stages := plan.Outline()
	if resources, err := gather(cmd.Context(), plan, settings.DatasetDir(), cmd.ErrOrStderr()); err == nil {
		stages = withRows(plan, resources)
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "%v\n\n", err) // the plan can be shown all the same, without what its files hold
	}
	return showPlan(cmd.OutOrStdout(), plan, stages)
}

// withRows expands a plan with what its files hold, whatever the simulators' addresses will be.
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

// showPlan prints the table of stages and their sums.
func showPlan(w io.Writer, plan *plans.Plan, stages []*spatev1.Stage) error {
	if d := plan.Proto().GetDescription(); d != "" {
		fmt.Fprintf(w, "%s\n\n", d)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "stage\ttarget\tworkload\tload\trequests\ttime")
	var all outlook
	for _, s := range stages {
		one := outlook{}
		one.add(plans.EstimateOf(s))
		number := fmt.Sprint(all.stages)
		if one.stages > 1 {
			number = fmt.Sprintf("%d-%d", all.stages, all.stages+one.stages-1)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", number, s.GetTarget().GetName(), s.GetWorkload().GetName(), plans.LoadWords(s.GetLoad()),
			one.requestWords(), one.timeWords())
		all.add(plans.EstimateOf(s))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s; requests: %s; time: %s\n", all.stageWords(), all.requestWords(), all.timeWords())
	return err
}

// outlook sums up what is known of stages before they run.
type outlook struct {
	stages          uint64
	requests        uint64
	time            time.Duration
	atMost          bool // sweeps and searches may take fewer stages
	byTime, byCount bool // some stages end by time, or by a number of requests, alone
}

func (o *outlook) add(e plans.Estimate) {
	n := uint64(e.Stages)
	o.stages += n
	o.atMost = o.atMost || n > 1
	if e.Counted {
		o.requests += n * e.Requests
	} else {
		o.byTime = true
	}
	if e.Timed {
		o.time += time.Duration(n) * e.Time
	} else {
		o.byCount = true
	}
}

func (o *outlook) stageWords() string { return o.words(count(o.stages, "stage"), false, "up to ") }

// requestWords is the number of requests. Stages that end by time send as many as the server takes.
func (o *outlook) requestWords() string {
	return o.words(thousands(o.requests), o.byTime && o.requests == 0, "at most ") + plus(o.byTime && o.requests > 0, " and those of the stages that end by time")
}

// timeWords is the time in which requests are started. Closed loops that end by a number of requests take what the server takes.
func (o *outlook) timeWords() string {
	return o.words(o.time.Round(100*time.Millisecond).String(), o.byCount && o.time == 0, "at most ") + plus(o.byCount && o.time > 0, " and that of the stages that end by a number of requests")
}

func (o *outlook) words(known string, unknown bool, bound string) string {
	switch {
	case unknown:
		return "n/a"
	case o.atMost:
		return bound + known
	}
	return known
}

func plus(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// stageWords says how many stages a plan has.
func stageWords(plan *plans.Plan) string {
	var all outlook
	for _, s := range plan.Outline() {
		all.add(plans.EstimateOf(s))
	}
	return all.stageWords()
}

// draftFlags are the flags of `spate plan new`.
type draftFlags struct {
	draft plans.Draft
	out   string
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
