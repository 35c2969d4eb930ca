package clustercmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/command"
)

// certsFlags are the flags of all commands about certificates.
type certsFlags struct {
	Dir string `flag:"dir" default:"certs" help:"<directory> of the authority and its certificates"`
}

// NewCerts makes `spate certs` and its subcommands.
func NewCerts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certs",
		Short: "Make TLS certificates for coordinator, agents and clients",
		Long: `Make a cluster's own certificates. With them, connections between coordinator, agents and clients
are encrypted, both sides are authenticated, and each program may do only what its role allows:
agents take assignments, clients run plans.

Make the authority once, and keep its key (ca.key) secret: with it, anyone can make valid
certificates. Give each program the three files ca.crt, NAME.crt and NAME.key. Several agents may
share a certificate.`,
		Example: `  spate certs init
  spate certs coordinator coordinator
  spate certs agent eu-agents
  spate certs client anna
  spate-coordinator --listen 10.0.0.1:7700 --tls-ca certs/ca.crt \
    --tls-cert certs/coordinator.crt --tls-key certs/coordinator.key
  spate-agent --coordinator 10.0.0.1:7700 --tls-ca ca.crt \
    --tls-cert eu-agents.crt --tls-key eu-agents.key
  spate run plan.yaml --coordinator 10.0.0.1:7700 --tls-ca certs/ca.crt \
    --tls-cert certs/anna.crt --tls-key certs/anna.key`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := &certsFlags{}
	command.Declare(cmd.PersistentFlags(), f)
	cmd.AddCommand(newCertsInit(f))
	for role, does := range map[certs.Role]string{
		certs.Coordinator: "serves agents and clients", certs.Agent: "generates load",
		certs.Client: "runs plans and reads results",
	} {
		cmd.AddCommand(newCertsIssue(f, role, does))
	}
	return cmd
}

func newCertsInit(f *certsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make the cluster's authority",
		Args:  command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := certs.Init(f.Dir, time.Now()); err != nil {
				return command.BadInput(err)
			}
			fmt.Fprintf(
				cmd.OutOrStdout(),
				"The authority is in %s. Keep %s secret. Next: spate certs coordinator NAME, spate certs agent NAME, spate certs client NAME\n",
				f.Dir,
				certs.AuthorityKey,
			)
			return nil
		},
	}
}

func newCertsIssue(f *certsFlags, role certs.Role, does string) *cobra.Command {
	var hosts struct {
		Names []string `flag:"host" help:"<names> and addresses to write into it, for other tools; Spate's programs do not need them"`
	}
	cmd := &cobra.Command{
		Use:   string(role) + " NAME",
		Short: fmt.Sprintf("Make a certificate for a program that %s", does),
		Long: fmt.Sprintf(
			"Make a certificate for a program that %s. It is valid for a year.\nTo renew it, move the old files away and run the command again.",
			does,
		),
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := certs.Issue(f.Dir, role, args[0], hosts.Names, time.Now())
			if err != nil {
				return command.BadInput(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "--tls-ca %s --tls-cert %s --tls-key %s\n", files.Authority,
				files.Cert, files.Key)
			return nil
		},
	}
	if role == certs.Coordinator {
		command.Declare(cmd.Flags(), &hosts)
	}
	return cmd
}
