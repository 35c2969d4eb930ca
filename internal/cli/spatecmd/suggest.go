package spatecmd

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/plans"
)

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
