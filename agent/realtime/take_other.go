//go:build !linux

package realtime

// take fails: only Linux is supported.
func take() error { return ErrNotAllowed }
