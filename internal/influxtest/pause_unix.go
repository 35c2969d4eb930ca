//go:build unix

package influxtest

import "syscall"

// Pause suspends the server, as an overloaded machine may: until Resume it accepts connections and answers nothing.
func (s *Server) Pause() { s.process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server continue.
func (s *Server) Resume() { s.process.Signal(syscall.SIGCONT) }
