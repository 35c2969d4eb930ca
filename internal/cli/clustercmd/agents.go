// Package clustercmd has the commands about a cluster (agents, runs, datasets, certs). It connects commands to a
// coordinator, and finds the run that a person names.
package clustercmd

import (
	"fmt"
	"io"

	"github.com/spate-load/spate/watch"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// NewAgents makes `spate agents`.
func NewAgents() *cobra.Command {
	var f struct {
		Flags
		outputFlag
	}
	cmd := &cobra.Command{
		Use:   "agents --coordinator HOST:PORT",
		Short: "List the agents that a coordinator knows",
		Long: `List the agents that a coordinator knows, with their place, capacity and health.

HEALTH "silent" is for how long heartbeats are late, "found" seen by gossip but not connected,
"missing" expected or cordoned and not connected; "cordoned", "draining" or "drained" agents take no
new runs. CPU is the cores in use, CLOCK the uncertainty of the clock, EXACT TO the streams and
frames per second up to which the machine was exact in "spate calibrate". A narrow
terminal shows fewer columns; --output json has all, with offsets and addresses.`,
		Example: "  spate agents --coordinator 127.0.0.1:7700\n  spate agents --coordinator 127.0.0.1:7700 --output json",
		Args:    command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := f.Connect()
			if err != nil {
				return err
			}
			defer conn.Close()
			list, err := Ask(cmd.Context(), f.Coordinator, spatev1.NewRunServiceClient(conn).ListAgents,
				&spatev1.ListAgentsRequest{})
			if err != nil {
				return err
			}
			if f.Output == "json" {
				return writeJSON(cmd.OutOrStdout(), agentsAsJSON(list.GetAgents()))
			}
			return writeAgents(cmd.OutOrStdout(), list.GetAgents())
		},
	}
	command.Declare(cmd.Flags(), &f)
	cmd.AddCommand(newCordon(), newDrain(), newUncordon())
	return cmd
}

// writeAgents prints agents as a table.
func writeAgents(w io.Writer, agents []*spatev1.AgentStatus) error {
	if len(agents) == 0 {
		_, err := fmt.Fprintln(w,
			"No agents. Start one with: spate-agent --coordinator HOST:PORT, or --join HOST:PORT of any member")
		return err
	}
	return watch.Fleet(agents).Capitals().Write(w, terminal.Width(w))
}

// agentJSON is an agent in the JSON list. Unknown values are null.
type agentJSON struct {
	Name             *string           `json:"name"`
	Region           *string           `json:"region"`
	Labels           map[string]string `json:"labels"`
	Health           string            `json:"health"`
	Cordon           *string           `json:"cordon"`
	Weight           *uint32           `json:"weight"`
	Cores            *uint32           `json:"cores"`
	MaxStreams       *uint32           `json:"max_streams"`
	MaxRate          *float64          `json:"max_rate"`
	InFlight         *uint32           `json:"in_flight"`
	CPUCores         *float64          `json:"cpu_cores"`
	ClockOffset      *int64            `json:"clock_offset_ns"`
	ClockUncertainty *int64            `json:"clock_uncertainty_ns"`
	WeightGiven      *bool             `json:"weight_given"`
	Capacity         *exact            `json:"capacity"`
	SilentFor        *float64          `json:"silent_for_seconds"`
	Address          *string           `json:"address"`
	Host             *string           `json:"host"`
	Version          *string           `json:"version"`
}

func agentsAsJSON(agents []*spatev1.AgentStatus) []agentJSON {
	list := make([]agentJSON, 0, len(agents))
	for _, s := range agents {
		a := s.GetAgent()
		one := agentJSON{
			Name: given(a.GetName()), Region: given(a.GetRegion()), Labels: a.GetLabels(),
			Health: watch.Health(s.GetHealth()),
			Cordon: given(watch.Cordon(s.GetCordon())),
			Weight: given(a.GetWeight()), Cores: given(a.GetCores()),
			MaxStreams: given(a.GetMaxStreams()), MaxRate: given(a.GetMaxRate()), Host: given(a.GetHost()),
			Version: given(a.GetVersion()),
			Address: given(s.GetAddress()), Capacity: exactOf(a.GetCapacity()),
		}
		if a.GetWeight() > 0 { // otherwise gossip has found it, and nothing else is known
			said := a.GetWeightGiven()
			one.WeightGiven = &said
		}
		if s.GetSilentFor() != nil {
			silent := s.GetSilentFor().AsDuration().Seconds()
			one.SilentFor = &silent
		}
		if h := s.GetHeartbeat(); h != nil {
			inFlight, cpu := h.GetInFlight(), h.GetCpuCores()
			one.InFlight, one.CPUCores, one.ClockUncertainty = &inFlight, &cpu, given(h.GetClockUncertaintyNs())
			if one.ClockUncertainty != nil {
				offset := h.GetClockOffsetNs()
				one.ClockOffset = &offset
			}
		}
		list = append(list, one)
	}
	return list
}

// exact is what calibration found for an agent's machine. Values that were not measured are null.
type exact struct {
	Streams         *uint32  `json:"streams"`
	FramesPerSecond *float64 `json:"frames_per_second"`
	StartsPerSecond *float64 `json:"starts_per_second"`
	MeasuredAt      *string  `json:"measured_at"`
}

func exactOf(c *spatev1.Capacity) *exact {
	if c == nil {
		return nil
	}
	return &exact{given(c.GetStreams()), given(c.GetFramesPerSecond()), given(c.GetStartsPerSecond()),
		stamp(c.GetMeasuredAt())}
}
