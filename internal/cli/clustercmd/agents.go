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
				return writeJSON(cmd.OutOrStdout(), list)
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
