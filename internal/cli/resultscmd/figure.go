package resultscmd

import (
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/report/page"
)

// figureFlags are the flags of `spate figure`.
type figureFlags struct {
	Format   string `flag:"format" default:"svg" oneof:"svg, csv" help:"format: svg, csv (its points)"`
	Width    string `flag:"width" default:"3.3in" help:"width in in, cm, mm, pt or px"`
	Workload string `flag:"workload" help:"workload, by its <name>; else the first"`
}

// NewFigure makes `spate figure`.
func NewFigure() *cobra.Command {
	f := &figureFlags{}
	return manual.New("figure", cobra.ExactArgs(2), f.run, f)
}

// length is a length, and pixels are how many an inch or other unit has.
var (
	length = regexp.MustCompile(`^([0-9.]+)(in|cm|mm|pt|px)$`)
	pixels = map[string]float64{"in": 96, "cm": 96 / 2.54, "mm": 96 / 25.4, "pt": 96. / 72, "px": 1}
)

// run writes the figure.
func (f *figureFlags) run(cmd *cobra.Command, args []string) error {
	parts := append(length.FindStringSubmatch(f.Width), "", "", "")
	width, _ := strconv.ParseFloat(parts[1], 64)
	if width *= pixels[parts[2]]; width < 150 || width > 4000 {
		return command.BadInputf("--width %q: want a width such as 3.3in, from 150px to 4000px", f.Width)
	}
	figure := page.Figure{Name: args[1], Workload: f.Workload, CSV: f.Format == "csv", Width: width}
	return command.BadInput(report.Figure(cmd.OutOrStdout(), args[0], figure))
}
