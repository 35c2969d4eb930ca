//go:build !unix

package socket

// Quiet returns true: on this system it is not known whether a connection was closed.
func (s *Socket) Quiet() bool { return true }
