//go:build unix

package runcmd

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the terminal's interrupt from a command.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
