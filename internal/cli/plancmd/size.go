package plancmd

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/layout"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/sizing"
)

// NewSize makes `spate size`.
func NewSize() *cobra.Command {
	var load sizing.Load
	var machines sizing.Machines
	cmd := &cobra.Command{
		Use:   "size --streams N --tok-s N",
		Short: "Calculate the cores, agents and coordinator that a load takes",
		Long: `Calculate what a load takes: cores and memory of agents, how many agents, and what the coordinator
needs. The figures behind it were measured on other machines than yours (docs/scale.md has them and
the formulas), so take the answer as an order of magnitude: "spate calibrate" measures your machine.`,
		Example: `  spate size --streams 200000 --tok-s 50
  spate size --streams 20000 --tok-s 30 --osl 800 --tls --endpoints 4 --regions 3 --cores 16`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := sizing.Of(load, machines)
			if err != nil {
				return command.BadInput(err)
			}
			return sizeTable(s, load, machines).Write(cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&load.Streams, "streams", 0, "requests in flight")
	fs.Float64Var(&load.TokensPerSecond, "tok-s", 0, "tokens per second of each stream, one in each frame")
	fs.IntVar(&load.OutputTokens, "osl", 150, "output tokens of a request")
	fs.BoolVar(&load.TLS, "tls", false, "the endpoints are https")
	fs.IntVar(&load.Endpoints, "endpoints", 1, "endpoints of the target")
	fs.IntVar(&load.Regions, "regions", 1, "regions that must have an agent")
	fs.IntVar(&machines.Cores, "cores", 8, "cores of an agent's machine")
	fs.IntVar(&machines.Relays, "relays", 0, "relays between agents and coordinator")
	fs.Float64Var(&machines.Busy, "busy", 0.6, "part of a core that the load may take")
	return cmd
}

// sizeTable lays out what a load takes.
func sizeTable(s sizing.Size, load sizing.Load, m sizing.Machines) *layout.Table {
	t := &layout.Table{}
	count := func(n float64) string { return words.Thousands(uint64(math.Round(n))) }
	t.Row("load", fmt.Sprintf("%s streams, %s frames/s, %s requests/s", count(float64(load.Streams)), count(s.Frames),
		count(s.Requests)))
	t.Row("CPU of agents", fmt.Sprintf("%.2f cores for frames, %.2f for requests: %s cores that are busy for %.0f %%",
		s.FrameCores, s.RequestCores, count(float64(s.Cores)), 100*m.Busy))
	t.Row("agents", fmt.Sprintf("%s with %d cores, decided by %s", count(float64(s.Agents)), m.Cores, s.Because))
	t.Row("each agent", fmt.Sprintf("%s streams, %s of memory, %s open files", count(float64(s.Streams)),
		mebibytes(s.Memory), count(float64(s.Files))))
	c := s.Coordinator
	t.Row("coordinator", fmt.Sprintf("%.1f %% of a core: give it %s; %s of memory, %s open files", 100*c.CPU,
		words.Count(uint64(c.Cores), "core"), mebibytes(c.Memory), count(float64(c.Files))))
	t.Row("network", fmt.Sprintf("%.2f MB/s to the coordinator", c.Received/1e6))
	if r := s.Relay; r != nil {
		t.Row("each relay", fmt.Sprintf("%s, %.1f %% of a core, %s of memory, %s open files",
			words.Count(uint64(r.Agents), "agent"), 100*r.CPU, mebibytes(r.Memory), count(float64(r.Files))))
	}
	t.Row("ledger", fmt.Sprintf("%.2f MB/s, %.1f GB an hour, without rows of requests", c.Ledger/1e6, c.Ledger*3600/1e9))
	return t
}

// mebibytes formats an amount of memory.
func mebibytes(bytes uint64) string {
	return words.Thousands(bytes>>20) + " MiB"
}
