// Package clustercmd has the commands about a cluster (agents, runs, datasets, certs). It connects commands to a
// coordinator, and finds the run that a person names.
package clustercmd

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

//go:embed help.txt
var manual command.Manual

// NewAgents makes `spate agents`. show shows what the hosts of --on can do.
func NewAgents(show func(ctx context.Context, on []string, out io.Writer) error) *cobra.Command {
	var f struct {
		Flags
		outputFlag
		On []string `flag:"on" commas:"kept" help:"<[REGION=][USER@]HOST,...> to show, as run --on has them, instead of a coordinator's agents; may be repeated"`
	}
	cmd := manual.New("agents", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if len(f.On) > 0 {
			if f.Output == "json" {
				return command.BadInputf("--output json does not go with --on, which shows a table")
			}
			return show(cmd.Context(), f.On, cmd.OutOrStdout())
		}
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
		_, err := fmt.Fprintln(w, "No agents. Start one with: spate agent --join INVITATION, or --coordinator HOST:PORT")
		return err
	}
	return watch.Fleet(agents).Capitals().Write(w, terminal.Width(w))
}

// cordonFlags are the flags of the commands that say which agents take runs.
type cordonFlags struct {
	Flags
	drainFlags
}

// drainFlags are those of `spate agents drain` alone.
type drainFlags struct {
	Wait time.Duration `flag:"wait" default:"5m" help:"how long to wait until the agents have no part of a run (0: not)"`
}

// newCordon makes `spate agents cordon`, uncordon or drain. done says what agents are then.
func newCordon(name string, to spatev1.Cordon, done string) *cobra.Command {
	f := &cordonFlags{}
	cmd := manual.New(name, cobra.MinimumNArgs(1), func(cmd *cobra.Command, names []string) error {
		return f.run(cmd, names, to, done)
	}, &f.Flags)
	if to == spatev1.Cordon_CORDON_DRAINED {
		command.Declare(cmd.Flags(), &f.drainFlags)
	}
	return cmd
}

func (f *cordonFlags) run(cmd *cobra.Command, names []string, to spatev1.Cordon, done string) error {
	if f.Wait < 0 {
		return command.BadInputf("--wait %v: want 0 or more", f.Wait)
	}
	conn, err := f.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	service := spatev1.NewRunServiceClient(conn)
	if err := f.change(cmd.Context(), service, names, to); err != nil {
		return err
	}
	if f.Wait > 0 {
		if err := f.await(cmd.Context(), service, names); err != nil {
			return err
		}
	} else if to == spatev1.Cordon_CORDON_DRAINED {
		done = "drains"
	}
	for _, name := range names {
		fmt.Fprintln(cmd.OutOrStdout(), name+": "+done)
	}
	return nil
}

// change asks the coordinator for the change.
func (f *cordonFlags) change(
	ctx context.Context, service spatev1.RunServiceClient, names []string, to spatev1.Cordon,
) error {
	_, err := Ask(ctx, f.Coordinator, service.CordonAgents,
		&spatev1.CordonAgentsRequest{Agents: names, Cordon: to}, codes.NotFound)
	if status.Code(err) == codes.NotFound {
		return command.BadInputf("%s; spate agents lists them", status.Convert(err).Message())
	}
	return err
}

// awaitInterval is how often the coordinator is asked whether agents still have a part of a run.
const awaitInterval = 500 * time.Millisecond

// await waits until agents have no part of a run.
func (f *cordonFlags) await(ctx context.Context, service spatev1.RunServiceClient, names []string) error {
	timeout, tick := time.NewTimer(f.Wait), time.NewTicker(awaitInterval)
	defer timeout.Stop()
	defer tick.Stop()
	for {
		list, err := Ask(ctx, f.Coordinator, service.ListAgents, &spatev1.ListAgentsRequest{})
		if err != nil {
			return err
		}
		left := draining(list.GetAgents(), names)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-timeout.C:
			return fmt.Errorf("still draining after %v: %s; `spate agents` shows when they are drained", f.Wait,
				strings.Join(left, ", "))
		}
	}
}

// draining returns which of the named agents still have a part of a run.
func draining(agents []*spatev1.AgentStatus, names []string) (left []string) {
	for _, a := range agents {
		name := a.GetAgent().GetName()
		if a.GetCordon() == spatev1.Cordon_CORDON_DRAINING && slices.Contains(names, name) {
			left = append(left, name)
		}
	}
	return left
}
