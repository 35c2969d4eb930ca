//go:build !linux

package host

// apply fails: only Linux is supported.
func apply() error { return ErrNotAllowed }
