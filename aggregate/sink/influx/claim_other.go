//go:build !unix

package influx

import "os"

// claim does nothing, because this system has no such locks: people must not send one spool from two processes at once.
func claim(*os.File) error { return nil }
