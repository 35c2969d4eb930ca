//go:build !linux

package simulator

import "net"

// listenTCP listens: there are no receive stamps here, which is said in each record.
func listenTCP(addr string, _ bool) (net.Listener, error) { return net.Listen("tcp", addr) }

// quietSocket is Linux's alone.
type quietSocket struct{ net.Conn }

func (s *quietSocket) read(p []byte) (int, stamp, error) {
	n, err := s.Conn.Read(p)
	return n, stamp{by: ArrivalByProgram}, err
}

func (s *quietSocket) write(p []byte) (int, error) { return s.Conn.Write(p) }
