//go:build unix && !linux

package engine

import "syscall"

// group returns what puts a command into a group of its own.
func group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: only Linux gives a process what its children leave behind.
func adopt() {}

// killOrphans does nothing, as adopt.
func killOrphans() {}
