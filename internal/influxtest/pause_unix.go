//go:build unix

package influxtest

import "syscall"

// Pause stops the server where it is, as an overloaded machine may: it takes connections and answers nothing, until
// Resume.
func (s *Server) Pause() { s.process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.process.Signal(syscall.SIGCONT) }
