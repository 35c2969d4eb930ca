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
				if err == nil {
					_, err = plan.Secrets(os.LookupEnv)
				}
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", path, count(uint64(plan.StageCount()), "stage"))
			}
			return badInput(failed)
		},
	}
}

// readPlan reads and checks a plan: a file, "-" for standard input, or the name of a plan that ships with Spate.
func readPlan(stdin io.Reader, path string) (*plans.Plan, error) {
	var data []byte
	var err error
	switch {
	case path == "-":
		path = "<stdin>"
		data, err = io.ReadAll(io.LimitReader(stdin, plans.MaxSize+1))
	default:
		data, err = os.ReadFile(path)
	}
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(path, `/\.`) {
		if shipped, ok := plans.Shipped(path); ok {
			return plans.Load(path+".yaml", shipped)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("plan cannot be read: %w", err)
	}
	return plans.Load(path, data)
}
