package clustercmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
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
	cmd.AddCommand(newCertsInvite(f), newCertsRevoke(f), newCertsInit(f))
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
		by, known := map[string]string{"agent": "spate agent --join", "client": "spate login"}[args[0]]
		if !known || flags.Valid <= 0 {
			return command.BadInputf("%s, --valid %v: want agent or client, and more than 0", args[0], flags.Valid)
		}
		a, err := certs.OpenAuthority(f.dir())
		if err != nil {
			return command.BadInput(err)
		}
		i, err := a.Invite(certs.Role(args[0]), strings.Join(args[1:], ""), flags.Valid, time.Now())
		i.Address = cmp.Or(flags.Address, i.Address)
		if err = cmp.Or(err, command.CheckAddress(i.Address)); err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "%s '%s'\n", by, i)
		}
		return command.BadInput(err)
	}, &flags)
}

// newCertsRevoke makes `spate certs revoke`.
func newCertsRevoke(f *certsFlags) *cobra.Command {
	return manual.New("revoke", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		a, err := certs.OpenAuthority(f.dir())
		if err != nil {
			return command.BadInput(err)
		}
		whose, err := a.Revoke(args[0], time.Now())
		if err != nil {
			return command.BadInput(err)
		}
		clock.Sleep(cmd.Context(), certs.Unnoticed) // invitations hold from then on
		for _, id := range whose {
			fmt.Fprintf(cmd.OutOrStdout(), "Revoked: %s, and all invitations of %[2]ss so far. New ones: spate certs invite %[2]s\n",
				id, id.Role)
		}
		return nil
	})
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

// NewLogin makes `spate login`.
func NewLogin() *cobra.Command {
	var flags struct {
		Name string `flag:"name" typed:"only" help:"your <name> in lists of runs (default: that of your account on this machine)"`
	}
	return manual.New("login", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		if u, err := user.Current(); flags.Name == "" && err == nil {
			flags.Name = filepath.Base(u.Username) // without a domain of Windows
		}
		m, err := command.NewMember(args[0], certs.Client, "", "person")
		if err != nil {
			return command.BadInput(err)
		}
		if err := m.Join(cmd.Context(), cmp.Or(flags.Name, "person")); err != nil {
			return command.BadInput(m.Explained(err))
		}
		id, until, err1 := m.Check(time.Now())
		path, err2 := configure(m)
		if err := errors.Join(err1, err2); err != nil {
			return command.BadInput(err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), loggedIn, id.Name, m.Address, until.Format(time.DateOnly), path, m.Dir)
		return nil
	}, &flags)
}

// loggedIn says what has changed: the name, the coordinator, the end of the certificate, the file and the folder.
const loggedIn = `You are %s at the coordinator %s, until %s; using it renews that.
All commands go there from now on: spate agents, spate runs, spate run plan.yaml.
On this machine, without it: spate run plan.yaml --agents 1.
Settings: coordinator, tls-ca, tls-cert, tls-key in %s. Certificate: %s.
To undo this, remove these four settings and that folder.
`

var loginSettings = regexp.MustCompile(`(?im)^(coordinator|tls-ca|tls-cert|tls-key):.*\n?`)

// configure sets a member's settings in the user's configuration file, keeps all else in it, and returns its path.
func configure(m *command.Member) (string, error) {
	path, err := command.UserFile()
	if err != nil {
		return "", err
	}
	old, _ := os.ReadFile(path) // no command starts with a file that cannot be read
	text, check := loginSettings.ReplaceAllString(string(old), ""), viper.New()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	added := fmt.Sprintf("coordinator: %q\ntls-ca: %q\ntls-cert: %q\ntls-key: %q\n", m.Address, m.Authority, m.Cert, m.Key)
	check.SetConfigType("yaml")
	if err := check.ReadConfig(strings.NewReader(text + added)); err != nil || check.GetString("tls-key") == "" {
		return "", fmt.Errorf("%s has these settings in another form than NAME: VALUE in a line: change them yourself\n%s", path, added)
	}
	return path, os.WriteFile(path, []byte(text+added), 0o600) // through a link, too
}
