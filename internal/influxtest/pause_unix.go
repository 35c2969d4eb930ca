//go:build unix

package influxtest

import "syscall"

// Pause stops the server where it is, as an overloaded machine may: it takes connections and answers nothing, until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(what syscall.Signal) {
	s.tb.Helper()
	if err := s.command.Process.Signal(what); err != nil {
		s.tb.Fatal(err)
	}
}
