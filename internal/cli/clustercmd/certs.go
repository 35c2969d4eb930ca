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
	cmd := manual.New("certs", cobra.NoArgs, command.ShowHelp)
	f := &certsFlags{}
	command.Declare(cmd.PersistentFlags(), f)
	cmd.AddCommand(newCertsInit(f))
	for _, role := range []certs.Role{certs.Coordinator, certs.Agent, certs.Client} {
		cmd.AddCommand(newCertsIssue(f, role))
	}
	return cmd
}

func newCertsInit(f *certsFlags) *cobra.Command {
	return manual.New("init", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if err := certs.Init(f.Dir, time.Now()); err != nil {
			return command.BadInput(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "The authority is in %s. Keep %s secret. Next: spate certs coordinator NAME, "+
			"spate certs agent NAME, spate certs client NAME\n", f.Dir, certs.AuthorityKey)
		return nil
	})
}

func newCertsIssue(f *certsFlags, role certs.Role) *cobra.Command {
	var hosts struct {
		Names []string `flag:"host" help:"<names> and addresses to write into it, for other tools; Spate's programs do not need them"`
	}
	cmd := manual.New(string(role), cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		files, err := certs.Issue(f.Dir, role, args[0], hosts.Names, time.Now())
		if err != nil {
			return command.BadInput(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "--tls-ca %s --tls-cert %s --tls-key %s\n", files.Authority, files.Cert,
			files.Key)
		return nil
	})
	if role == certs.Coordinator {
		command.Declare(cmd.Flags(), &hosts)
	}
	return cmd
}
