package plancmd

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/bounded"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/plans/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// phasesFlags are the flags of `spate plan phases`.
type phasesFlags struct {
	columns series.Columns
	options series.Options
	per     time.Duration
}

// newPlanPhases makes `spate plan phases`.
func newPlanPhases() *cobra.Command {
	f := &phasesFlags{}
	cmd := &cobra.Command{
		Use:   "phases FILE.csv",
		Short: "Make a load that follows a measured rate",
		Long: `Read a measured rate, such as a day of production exported from a dashboard, and print a load that
follows it, for the loads of a plan. The file is CSV with a header. Times are 2026-11-25T08:00:00Z,
2026-11-25 08:00:00, or seconds or milliseconds. Each row holds up to the next one.`,
		Example: "  spate plan phases day.csv --speed 60 --every 5m > load.yaml\n" +
			"  spate plan phases day.csv --value 'requests per minute' --per 1m --scale 0.1",
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.columns.Time, "time", "", "`column` of times (default: the first)")
	flags.StringVar(&f.columns.Value, "value", "", "`column` of rates (default: the second)")
	flags.DurationVar(&f.per, "per", time.Second, "`time` that the rates are per: 1m for requests per minute")
	flags.Float64Var(&f.options.Speed, "speed", 1, "how many `times` faster than measured time passes; rates stay as they are")
	flags.Float64Var(&f.options.Scale, "scale", 1, "`factor` on the rates")
	flags.DurationVar(&f.options.Every, "every", 0, "average over spans of this `time` in the file (default: each row is a phase)")
	flags.BoolVar(&f.options.Linear, "linear", false, "change the rate steadily from row to row")
	settings.TypedOnly(flags, "time", "value", "per", "speed", "scale", "every", "linear")
	return cmd
}

func (f *phasesFlags) run(cmd *cobra.Command, path string) error {
	for _, positive := range []struct {
		flag string
		ok   bool
	}{
		{"--per", f.per > 0}, {"--speed", f.options.Speed > 0}, {"--scale", f.options.Scale > 0}, {"--every", f.options.Every >= 0},
	} {
		if !positive.ok {
			return command.BadInputf("%s: want more than 0", positive.flag)
		}
	}
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := bounded.Open(path)
		if err != nil {
			return command.BadInput(err)
		}
		defer file.Close()
		in = file
	}
	points, err := series.Read(in, f.columns)
	if err != nil {
		return command.BadInputf("%s: %w", path, err)
	}
	options := f.options
	options.Scale /= f.per.Seconds()
	phases, err := series.Phases(points, options)
	if err != nil {
		return command.BadInputf("%s: %w", path, err)
	}
	return printPhases(cmd.OutOrStdout(), phases)
}

// printPhases prints a load for a plan.
func printPhases(w io.Writer, phases []*spatev1.Phase) error {
	rate := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	text := []byte("loads:\n  - rate_phases:\n")
	for _, p := range phases {
		to := ""
		if p.To != nil {
			to = ", to: " + rate(p.GetTo())
		}
		text = fmt.Appendf(text, "      - {from: %s%s, duration: %s}\n", rate(p.GetFrom()), to, p.GetDuration().AsDuration())
	}
	_, err := w.Write(text)
	return err
}
