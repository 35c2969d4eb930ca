package regions

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/netlab"
	"github.com/spate-load/spate/internal/process"
)

// start starts a program on a host. The program's clocks since boot are ahead by skew.
func start(t *testing.T, on *netlab.Host, skew time.Duration, program string, args ...string) *process.Process {
	t.Helper()
	command := on.SkewedCommand(t.Context(), skew, program, args...)
	return process.Launch(t, on.Name()+": "+filepath.Base(program), command.Cmd, command)
}
