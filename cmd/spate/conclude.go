package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
)

// conclude prints the tables and says with the exit code how the run ended.
func (f *runFlags) conclude(cmd *cobra.Command, dir string, result *aggregate.Result, ended *spatev1.RunEnded) error {
	out := cmd.OutOrStdout()
	if !f.noProgress {
		fmt.Fprintln(out)
		if err := report.Table(out, result, terminalWidth(out)); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Run directory: %s\n", dir)
	if ended.GetReason() != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "spate: the run did not reach its end: "+ended.GetReason())
	}
	switch {
	case ended.GetOutcome() == spatev1.Outcome_OUTCOME_STOPPED:
		return &exitError{exitStopped, errAlreadySaid}
	case ended.GetOutcome() != spatev1.Outcome_OUTCOME_DONE, !ended.GetComplete():
		return &exitError{exitFailed, errAlreadySaid}
	}
	return nothingCompleted(result)
}

// nothingCompleted is an error if a stage sent requests and none of them completed: such a run has gone to its end and measured
// nothing, which a script must not take for a success.
func nothingCompleted(result *aggregate.Result) error {
	for _, s := range result.Stages {
		if s.Requests.Completed == 0 && s.Requests.Failed > 0 {
			return &exitError{exitFailed, fmt.Errorf("no request of stage %d (%s, %s, %s) completed: see the errors in report.md",
				s.Index, s.Target, s.Workload, s.Load)}
		}
	}
	return nil
}
