package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/plans"
)

func newValidate() *cobra.Command {
	return &cobra.Command{
		Use:   "validate PLAN.yaml...",
		Short: "Check plans without running them",
		Long:  "Check plans: every mistake is printed with file, line and column. Secrets that a plan refers to are looked up as well.",
		Args:  arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error
			for _, path := range args {
				plan, err := readPlan(cmd.InOrStdin(), path)
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", path, count(uint64(stageCount(plan)), "stage"))
			}
			return badInput(failed)
		},
	}
}

// stageCount is the number of stages a plan expands into, each sweep and search at its largest.
func stageCount(plan *plans.Plan) int {
	total := 0
	for _, s := range plan.Outline() {
		total += int(plans.EstimateOf(s).Stages)
	}
	return total
}

// readPlan reads and checks a plan: a file, "-" for standard input, or the name of a plan that ships with Spate.
func readPlan(stdin io.Reader, path string) (*plans.Plan, error) {
	if path == "-" {
		data, err := io.ReadAll(io.LimitReader(stdin, maxPlanBytes))
		if err != nil {
			return nil, fmt.Errorf("plan cannot be read: %w", err)
		}
		return plans.Load("<stdin>", data, plans.Options{Lookup: plans.SystemLookup})
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if shipped, openErr := plans.Open(path); openErr == nil {
			return plans.Load(path, shipped, plans.Options{Lookup: plans.SystemLookup})
		}
		return nil, fmt.Errorf("plan cannot be read: %w; plans that ship with Spate: %s", err, strings.Join(plans.Shipped(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("plan cannot be read: %w", err)
	}
	return plans.Load(path, data, plans.Options{Lookup: plans.SystemLookup})
}

// maxPlanBytes is beyond what a plan may have, so that a plan that is too large is seen to be.
const maxPlanBytes = 8 << 20
