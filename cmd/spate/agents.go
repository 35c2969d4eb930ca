package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/cmd/internal/settings"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func newAgents() *cobra.Command {
	var coordinator string
	var tls settings.TLS
	cmd := &cobra.Command{
		Use:   "agents --coordinator HOST:PORT",
		Short: "List the agents that a coordinator knows",
		Long: `List the agents that a coordinator knows: where they are, how much they take on and how they do. Health is "ready", "busy" (in a
run), "silent" (heartbeats are late) or "found" (seen by gossip, not connected yet).`,
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if coordinator == "" {
				return badInputf("--coordinator is missing: give the coordinator's host:port")
			}
			if err := tls.Check(slog.Default()); err != nil {
				return badInput(err)
			}
			conn, err := dial(coordinator, &tls)
			if err != nil {
				return err
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			list, err := spatev1.NewRunServiceClient(conn).ListAgents(ctx, &spatev1.ListAgentsRequest{})
			if err != nil {
				return unreachable(coordinator, err)
			}
			return writeAgents(cmd.OutOrStdout(), list.GetAgents())
		},
	}
	cmd.Flags().StringVar(&coordinator, "coordinator", "", "the coordinator's `host:port`")
	tls.AddFlags(cmd.Flags())
	return cmd
}

// writeAgents prints agents as a table.
func writeAgents(w io.Writer, agents []*spatev1.AgentStatus) error {
	if len(agents) == 0 {
		_, err := fmt.Fprintln(w, "No agents. Start one with: spate-agent --coordinator HOST:PORT, or --join HOST:PORT of any member")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENT\tREGION\tVERSION\tHOST\tCORES\tWEIGHT\tSTREAMS\tHEALTH\tIN FLIGHT\tCPU\tCLOCK")
	for _, s := range agents {
		a, h := s.GetAgent(), s.GetHeartbeat()
		inFlight, cpu, clock := "n/a", "n/a", "n/a"
		if h != nil {
			inFlight, cpu = fmt.Sprint(h.GetInFlight()), fmt.Sprintf("%.2f", h.GetCpuCores())
			if h.GetClockUncertaintyNs() > 0 {
				clock = "±" + time.Duration(h.GetClockUncertaintyNs()).Round(time.Microsecond).String()
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.GetName(), known(a.GetRegion()), known(a.GetVersion()), known(a.GetHost()),
			positive(a.GetCores()), positive(a.GetWeight()), positive(a.GetMaxStreams()), health(s.GetHealth()), inFlight, cpu, clock)
	}
	return t.Flush()
}

func health(h spatev1.AgentHealth) string {
	switch h {
	case spatev1.AgentHealth_AGENT_HEALTH_READY:
		return "ready"
	case spatev1.AgentHealth_AGENT_HEALTH_BUSY:
		return "busy"
	case spatev1.AgentHealth_AGENT_HEALTH_SILENT:
		return "silent"
	case spatev1.AgentHealth_AGENT_HEALTH_FOUND:
		return "found"
	default:
		return "n/a"
	}
}

func known(s string) string {
	if s == "" {
		return "n/a"
	}
	return s
}

func positive(n uint32) string {
	if n == 0 {
		return "n/a"
	}
	return thousands(uint64(n))
}
