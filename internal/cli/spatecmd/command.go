// Package spatecmd is the command line of spate: its commands, their flags, and what they print.
package spatecmd

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/cli/agentcmd"
	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/coordinatorcmd"
	"github.com/spate-load/spate/internal/cli/labcmd"
	"github.com/spate-load/spate/internal/cli/plancmd"
	"github.com/spate-load/spate/internal/cli/resultscmd"
	"github.com/spate-load/spate/internal/cli/runcmd"
	"github.com/spate-load/spate/internal/foreign"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/document"
)

// Main executes the command line and returns the exit code. build is the version that the build was given, or empty.
// Main blocks until the command has ended.
func Main(build string) int {
	command.FilterLog(os.Stderr)
	root := newRoot(command.Version(build))
	err := root.ExecuteContext(context.Background())
	if err != nil && !errors.Is(err, command.ErrPrinted) {
		fmt.Fprintln(os.Stderr, "spate: "+reason.Plain(err.Error()))
	}
	return command.ExitCode(err)
}

//go:embed help.txt
var manual command.Manual

func newRoot(version string) *cobra.Command {
	root := manual.New("spate", nil, command.ShowHelp)
	root.SilenceErrors, root.SilenceUsage, root.Version, root.Args = true, true, version, noCommand
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return command.BadInput(command.Apply(cmd)) }
	command.AddFlag(root)
	command.SetUsage(root)
	root.SetFlagErrorFunc(flagError)
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Test", []*cobra.Command{
			plancmd.NewPlan(), runcmd.NewRun(version), labcmd.NewSimulate(), labcmd.NewCalibrate(version)}},
		{"Look at results", []*cobra.Command{
			resultscmd.NewReport(), resultscmd.NewFigure(), resultscmd.NewCompare(), resultscmd.NewHistory(),
			resultscmd.NewAudit(),
			resultscmd.NewVerify(version, func() *cobra.Command { return runcmd.NewRun(version) }),
			clustercmd.NewRuns(runcmd.NewFollow(), runcmd.NewFetch(), runcmd.NewStop(), runcmd.NewResume(version),
				resultscmd.NewExport())}},
		{"Cluster", []*cobra.Command{
			coordinatorcmd.New("spate coordinator", version), agentcmd.New("spate agent", version),
			clustercmd.NewAgents(func(ctx context.Context, on []string, out io.Writer) error {
				return runcmd.ShowHosts(ctx, on, version, out)
			}), clustercmd.NewLogin(), clustercmd.NewCerts()}},
		{"Operate", []*cobra.Command{newVersion(version)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.SetHelpCommandGroupID("Operate")
	root.SetCompletionCommandGroupID("Operate")
	root.AddCommand(manual.New("exit-codes", nil, nil))
	completeValues(root)
	return root
}

// completeValues enables shell completion of flag values for a command and all below it, and of arguments for those
// that take plans.
func completeValues(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if words := command.Words(f); len(words) > 0 {
			// This fails only for a flag that already has completion or does not exist. Neither can happen.
			_ = cmd.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	if strings.Contains(cmd.Use, "PLAN.yaml") {
		cmd.ValidArgsFunction = completePlans
	}
	for _, sub := range cmd.Commands() {
		completeValues(sub)
	}
}

// completePlans offers the plans that ship with Spate. If none starts with what was typed, the shell offers files.
func completePlans(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	found := lists.Where(plans.Shipped(), func(name string) bool { return strings.HasPrefix(name, typed) })
	return found, cobra.ShellCompDirectiveDefault
}

// newVersion makes a command that prints the same as --version.
func newVersion(version string) *cobra.Command {
	return manual.New("version", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "spate version "+version)
		return err
	})
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)$`)

// flagError adds a similar flag to an error about an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	if part := unknownFlag.FindStringSubmatch(err.Error()); part != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name, _, _ := strings.Cut(part[1], "=")
		makesPlans := cmd.Flags().Lookup("target") != nil
		meant := func(string) string { return "" }
		if makesPlans {
			names, meant = append(names, foreign.Names()...), foreign.Meant
		}
		near, place := words.Nearest(name, names), document.Place(name)
		switch {
		case meant(name) != "":
			hint = command.DidYouMean(meant(name))
		case makesPlans && place != "" && !words.Alike(name, near):
			hint = command.DidYouMean("--set " + place + "=VALUE")
		case makesPlans && strings.HasPrefix(commandOf[name], "plan new"):
			hint = command.DidYouMean("spate " + commandOf[name])
		case name == "target" && slices.Contains(names, "endpoint"):
			hint = command.DidYouMean("--endpoint")
		case near != "":
			hint = command.DidYouMean(cmp.Or(meant(near), "--"+near))
		case makesPlans:
			hint = "; a whole command line of another tool goes into --from"
		}
	}
	return command.BadInputf("%w%s\nsee: %s --help", err, hint, cmd.CommandPath())
}

// commandOf has the commands that people mean by words of other programs, and the places of subcommands.
var commandOf = map[string]string{
	"bench": "run", "benchmark": "run", "profile": "run", "start": "run", "test": "run", "attack": "run",
	"serve": "simulate", "mock": "simulate", "plans": "plan list", "init": "plan new", "new": "plan new",
	"validate": "plan validate", "check": "plan validate", "show": "plan show", "search": "plan new --load search", "schema": "plan schema",
	"gate": "run --gate DIR", "web": "run --web", "diff": "compare", "results": "report",
	"follow": "runs follow", "attach": "runs follow", "fetch": "runs fetch", "stop": "runs stop", "rm": "runs rm",
	"resume": "runs resume", "export": "runs export", "list": "runs", "ls": "runs", "ps": "runs",
	"status": "runs", "master": "coordinator", "server": "coordinator", "worker": "agent", "node": "agents",
}

// noCommand refuses an unknown command, and says what is probably meant.
func noCommand(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case commandOf[args[0]] != "":
		return command.BadInputf("unknown command %q%s", args[0], command.DidYouMean("spate "+commandOf[args[0]]))
	case slices.Contains(plans.Shipped(), args[0]):
		return command.BadInputf("unknown command %q; to run the plan of this name: spate run %[1]s", args[0])
	}
	return command.Arguments(cobra.NoArgs)(cmd, args)
}
