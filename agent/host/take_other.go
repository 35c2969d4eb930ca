//go:build !linux

package host

// populate does nothing on this system.
func populate([]byte) {}

// apply fails: only Linux is supported.
func apply() error { return ErrNotAllowed }
