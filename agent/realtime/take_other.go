//go:build !linux

package realtime

// apply fails: only Linux is supported.
func apply() error { return ErrNotAllowed }
