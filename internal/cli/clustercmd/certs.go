package clustercmd

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/command"
)

// certsFlags are the flags of all commands about certificates.
type certsFlags struct {
	Dir string `flag:"dir" help:"<directory> of the authority and its certificates (default: runs/certs, if a coordinator has made it, or certs)"`
}

// dir returns the directory of the authority.
func (f *certsFlags) dir() string {
	const own = "runs/certs"
	if _, err := os.Stat(own); f.Dir == "" && err == nil {
		return own
	}
	return cmp.Or(f.Dir, "certs")
}

// NewCerts makes `spate certs` and its subcommands.
func NewCerts() *cobra.Command {
	cmd := manual.New("certs", cobra.NoArgs, command.ShowHelp)
	f := &certsFlags{}
	command.Declare(cmd.PersistentFlags(), f)
	cmd.AddCommand(newCertsInvite(f), newCertsInit(f))
	for _, role := range certs.Roles {
		cmd.AddCommand(newCertsIssue(f, role))
	}
	return cmd
}

// newCertsInvite makes `spate certs invite`.
func newCertsInvite(f *certsFlags) *cobra.Command {
	var flags struct {
		Valid   time.Duration `flag:"valid" default:"24h" help:"how long the invitation is valid"`
		Address string        `flag:"address" help:"the coordinator's <host:port> (default: the one that it notes in the directory)"`
	}
	return manual.New("invite", cobra.RangeArgs(1, 2), func(cmd *cobra.Command, args []string) error {
		if args[0] != string(certs.Agent) || flags.Valid <= 0 {
			return command.BadInputf("%s, --valid %v: want agent, and more than 0", args[0], flags.Valid)
		}
		a, err := certs.OpenAuthority(f.dir())
		if err != nil {
			return command.BadInput(err)
		}
		i, err := a.Invite(certs.Agent, strings.Join(args[1:], ""), flags.Valid, time.Now())
		i.Address = cmp.Or(flags.Address, i.Address)
		if err = cmp.Or(err, command.CheckAddress(i.Address)); err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "spate agent --join '%s'\n", i)
		}
		return command.BadInput(err)
	}, &flags)
}

func newCertsInit(f *certsFlags) *cobra.Command {
	return manual.New("init", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if err := certs.Init(f.dir(), time.Now()); err != nil {
			return command.BadInput(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "The authority is in %s. Keep %s secret. Next: spate certs coordinator NAME, "+
			"spate certs agent NAME, spate certs client NAME\n", f.dir(), certs.AuthorityKey)
		return nil
	})
}

func newCertsIssue(f *certsFlags, role certs.Role) *cobra.Command {
	var hosts struct {
		Names []string `flag:"host" help:"<names> and addresses to write into it, for other tools; Spate's programs do not need them"`
	}
	cmd := manual.New(string(role), cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		files, err := certs.Issue(f.dir(), role, args[0], hosts.Names, time.Now())
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
