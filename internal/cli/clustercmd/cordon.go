package clustercmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// cordonFlags are the flags of the commands that say which agents take runs.
type cordonFlags struct {
	Flags
	drainFlags
}

// drainFlags are those of `spate agents drain` alone.
type drainFlags struct {
	Wait time.Duration `flag:"wait" default:"5m" help:"how long to wait until the agents have no part of a run (0: not)"`
}

// newCordon makes `spate agents cordon`.
func newCordon() *cobra.Command {
	f := &cordonFlags{}
	return f.command(&cobra.Command{
		Use:   "cordon AGENT... --coordinator HOST:PORT",
		Short: "Keep agents from new runs",
		Long: `Keep agents from new runs. They stay in the run in progress, to its end. The coordinator remembers
that when it or they are restarted, until "spate agents uncordon". "spate agents" shows it.`,
		Example: "  spate agents cordon eu-1 eu-2 --coordinator 127.0.0.1:7700",
	}, spatev1.Cordon_CORDON_CORDONED, "cordoned")
}

// newUncordon makes `spate agents uncordon`.
func newUncordon() *cobra.Command {
	f := &cordonFlags{}
	return f.command(&cobra.Command{
		Use:   "uncordon AGENT... --coordinator HOST:PORT",
		Short: "Let agents that were cordoned or drained take runs again",
		Long: `Let agents that were cordoned or drained take runs again. An agent that has left the run in progress
takes part from its next stage on.`,
		Example: "  spate agents uncordon eu-1 eu-2 --coordinator 127.0.0.1:7700",
	}, spatev1.Cordon_CORDON_UNSPECIFIED, "takes runs")
}

// newDrain makes `spate agents drain`.
func newDrain() *cobra.Command {
	f := &cordonFlags{}
	cmd := f.command(&cobra.Command{
		Use:   "drain AGENT... --coordinator HOST:PORT",
		Short: "Keep agents from new runs, and let them hand over what they have",
		Long: `Keep agents from new runs, as "spate agents cordon" does, and let them leave the run in progress:
other agents take over what they have not begun, and they end what they have begun. Nothing is
missing then, whatever the plan's on_agent_loss. If no other agent can take over, an agent stays
until the stage ends. The command waits until the agents have no part of a run, so that their
programs or machines can be stopped; Ctrl-C only ends the wait.`,
		Example: "  spate agents drain eu-1 --coordinator 127.0.0.1:7700\n  spate agents drain eu-1 --wait 0 --coordinator 127.0.0.1:7700",
	}, spatev1.Cordon_CORDON_DRAINED, "drained")
	command.Declare(cmd.Flags(), &f.drainFlags)
	return cmd
}

// command completes a command that changes agents. done says what they are then.
func (f *cordonFlags) command(cmd *cobra.Command, to spatev1.Cordon, done string) *cobra.Command {
	cmd.Args = command.Arguments(cobra.MinimumNArgs(1))
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
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
	command.Declare(cmd.Flags(), &f.Flags)
	return cmd
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
