//go:build !unix

package runcmd

import "os/exec"

// ownGroup does nothing: no interrupt is passed on here.
func ownGroup(*exec.Cmd) {}
