// Package clustercmd has the commands about a cluster (agents, runs, datasets, certs). It connects commands to a
// coordinator, and finds the run that a person names.
package clustercmd

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/spate-load/spate/watch"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

//go:embed help.txt
var manual command.Manual

// NewAgents makes `spate agents`.
func NewAgents() *cobra.Command {
	var f struct {
		Flags
		outputFlag
	}
	cmd := manual.New("agents", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
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
	}, &f)
	cmd.AddCommand(newCordon("cordon", spatev1.Cordon_CORDON_CORDONED, "cordoned"),
		newCordon("drain", spatev1.Cordon_CORDON_DRAINED, "drained"),
		newCordon("uncordon", spatev1.Cordon_CORDON_UNSPECIFIED, "takes runs"))
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
