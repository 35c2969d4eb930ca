package agentcmd

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/command"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"spate-agent": func() { os.Exit(command.Main(New("spate-agent", "v0.0.0-test"))) },
	})
}

func TestScripts(t *testing.T) { clienttest.RunScripts(t) }
