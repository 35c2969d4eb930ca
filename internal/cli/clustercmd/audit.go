package clustercmd

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// auditFlags are the flags of `spate audit`.
type auditFlags struct {
	Flags
	By      string   `flag:"by" help:"only what the person or program of this <name> changed"`
	Actions []string `flag:"action" help:"only these <actions>, with commas between them"`
	About   string   `flag:"about" help:"only changes of this <run> (its whole ID) or agent"`
	Since   string   `flag:"since" help:"only changes from this <time> on"`
	Until   string   `flag:"until" help:"only changes before this <time>"`
	Limit   uint32   `flag:"limit" default:"50" help:"list at most this many entries, the newest; at most 1000"`
	Output  string   `flag:"output" default:"table" oneof:"table, jsonl" help:"<form> of the list: table or jsonl"`
}

// NewAudit makes `spate audit`.
func NewAudit() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "audit --coordinator HOST:PORT",
		Short: "List who changed what on a coordinator",
		Long: `List who changed what on a coordinator, the newest first: its audit log. Where --access says who may
do what, only operators may.

BY is the name in a certificate, or the holder of a token; with the proof "token", which is the
coordinator's own, it is only what the caller said. Flags select the entries for which all that is
given holds. A time is a duration before now (90m, 24h), a day, or RFC 3339. --output jsonl: a line
of JSON for each entry, in the form of the coordinator's audit.jsonl.`,
		Example: `  spate audit --coordinator 127.0.0.1:7700
  spate audit --coordinator 127.0.0.1:7700 --by anna --action stop,drain --since 24h`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: f.run,
	}
	command.Declare(cmd.Flags(), f)
	return cmd
}

// run reads the log and prints it.
func (f *auditFlags) run(cmd *cobra.Command, _ []string) error {
	since, err := moment("--since", f.Since, time.Now())
	if err != nil {
		return err
	}
	until, err := moment("--until", f.Until, time.Now())
	if err != nil {
		return err
	}
	conn, err := f.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	log, err := Ask(cmd.Context(), f.Coordinator, spatev1.NewRunServiceClient(conn).ReadAuditLog,
		&spatev1.ReadAuditLogRequest{By: f.By, Actions: f.Actions, About: f.About, Since: since, Until: until,
			Limit: f.Limit})
	if err != nil {
		return err
	}
	if f.Output == "jsonl" {
		return writeAuditLines(cmd.OutOrStdout(), log.GetEntries())
	}
	if len(log.GetEntries()) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "No entries.")
		return err
	}
	return watch.Audit(log.GetEntries(), time.Local).Capitals().Write(cmd.OutOrStdout(), 0)
}

// moment reads a point in time: a duration before now, a day of this machine, or RFC 3339. nil: none was given.
func moment(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return timestamppb.New(now.Add(-d)), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return timestamppb.New(t), nil
		}
	}
	return nil, command.BadInputf("%s %q: want a duration before now such as 24h, a day such as 2026-03-29, "+
		"or a time such as 2026-03-29T10:00:00Z", flag, text)
}

// writeAuditLines prints entries as the lines that the coordinator's file has.
func writeAuditLines(w io.Writer, entries []*spatev1.AuditEntry) error {
	lines := json.NewEncoder(w)
	for _, e := range entries {
		err := lines.Encode(access.AuditEntry{
			Time: e.GetTime().AsTime(), Action: access.Action(e.GetAction()),
			Caller: access.Caller{By: e.GetBy(), Proof: access.Proof(e.GetProof()), Address: e.GetAddress()},
			Run:    e.GetRun(), Immediately: e.GetImmediately(), Agents: e.GetAgents(),
		})
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
	}
	return nil
}
