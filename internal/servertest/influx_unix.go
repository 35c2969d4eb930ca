//go:build unix

package servertest

import "syscall"

// Pause suspends the server, as an overloaded machine may: until Resume it accepts connections and answers nothing.
func (s *Influx) Pause() { s.process.Signal(syscall.SIGSTOP) }

// Resume lets a paused server continue.
func (s *Influx) Resume() { s.process.Signal(syscall.SIGCONT) }
