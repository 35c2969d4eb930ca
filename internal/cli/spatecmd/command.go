// Package spatecmd is the command line of spate: its commands, their flags, and what they print.
package spatecmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/agentcmd"
	"github.com/spate-load/spate/internal/cli/coordinatorcmd"
	"github.com/spate-load/spate/internal/cli/daemon"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/internal/reason"
)

// version is the program's version. Main sets it.
var version = ""

// Main executes the command line and returns the exit code. build is the version that the build was given, or empty.
// Main blocks until the command has ended.
func Main(build string) int {
	version = build
	root := newRoot()
	err := root.ExecuteContext(context.Background())
	if err != nil && !errors.Is(err, errAlreadySaid) {
		fmt.Fprintln(os.Stderr, "spate: "+reason.Plain(err.Error()))
	}
	return exitCode(err)
}

// errAlreadySaid goes with an exit code whose reason the command has already printed.
var errAlreadySaid = errors.New("see above")

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "spate",
		Short: "Distributed load generator for LLM serving",
		Long: `Spate drives more load at LLM serving deployments than one client can, from several machines and regions at once, and reports
numbers that can be trusted.

A plan says what to test: targets x workloads x loads. Each combination is a stage. "spate run" runs a plan on this machine, or on a
coordinator and its agents with --coordinator. "spate plans" lists the plans that ship with Spate, "spate plan new" writes one of your own.

` + exitHelp,
		Example: `  spate run quickstart
  spate plans
  spate plan show slo-search
  spate plan new
  spate run plan.yaml --simulate=10
  spate run --target http://127.0.0.1:8000 --model Qwen/Qwen3-32B --concurrency 1,2,4 --isl 3000 --osl 150
  spate run --coordinator 127.0.0.1:7700 plan.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       daemon.Version(version),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return badInput(settings.Apply(cmd))
		},
	}
	settings.AddFlag(root)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newRun(), newPlans(), newPlan(), newValidate(), newReport(), newSimulate(), newAgents(), newRuns(),
		newDatasets(), newFollow(),
		newResume(), newStop(), newFetch(), newExport(), newCerts(), newCalibrate(), newExitCodes(), newVersion(),
		agentcmd.New("spate agent", root.Version), coordinatorcmd.New("spate coordinator", root.Version))
	completeValues(root)
	return root
}

// arguments wraps a check of positional arguments so that mistakes in them exit with the code for bad input.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return badInputf("%w\nsee: %s --help", err, cmd.CommandPath())
		}
		return nil
	}
}
