package clustercmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spate-load/spate/internal/cli/command"
)

// A restore that fails because of a disk is a fault of the machine; one to a place that cannot be is a mistake.
func TestWhyARestoreFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, unwritten := full.WriteString("a")
	_, unopened := os.Open(filepath.Join(t.TempDir(), "none"))
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.Join(unwritten, full.Close()), command.ExitFault},
		{&os.PathError{Op: "mkdir", Path: "data/run", Err: syscall.ENOSPC}, command.ExitFault},
		{unopened, command.ExitInput},
		{errors.New("the backup is damaged"), command.ExitInput},
	} {
		if got := command.ExitCode(unrestored(fmt.Errorf("spate.tar: %w", c.err))); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}
