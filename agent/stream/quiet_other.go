//go:build !unix

package stream

// quiet takes a connection for open as long as nothing else is known.
func (s *socket) quiet() bool { return true }
