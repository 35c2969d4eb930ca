//go:build !linux

package realtime

// take is Linux's alone.
func take() error { return ErrNotAllowed }
