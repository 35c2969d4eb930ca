//go:build !linux

package stream

import "syscall"

// portAtConnect does nothing on this system.
func portAtConnect(syscall.RawConn) {}
