//go:build !linux

package wire

import "net"

// ListenTCP listens. There are no receive stamps here, and each record says so.
func ListenTCP(addr string, _ bool) (net.Listener, error) { return net.Listen("tcp", addr) }

// quietSocket reads and writes without receive stamps, which only Linux has.
type quietSocket struct{ net.Conn }

func (s *quietSocket) read(p []byte) (int, stamp, error) {
	n, err := s.Conn.Read(p)
	return n, stamp{by: ArrivalByProgram}, err
}

func (s *quietSocket) write(p []byte) (int, error) { return s.Conn.Write(p) }
