package engine

import (
	"fmt"
	"os"
	"os/exec"
)

// Alone does nothing.
func Alone(*exec.Cmd) {}

// Guard refuses to run a command: no server is started on Windows.
func Guard([]string) {
	fmt.Fprintln(os.Stderr, "servers of plans are started on Linux and macOS only: run spate there, or in WSL")
}
