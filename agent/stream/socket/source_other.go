//go:build !linux

package socket

import "syscall"

// portAtConnect does nothing on this system.
func portAtConnect(syscall.RawConn) {}
