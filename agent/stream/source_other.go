//go:build !linux

package stream

import "syscall"

// portAtConnect has nothing to set here.
func portAtConnect(syscall.RawConn) {}
