//go:build !linux

package simulator

import "net"

// listenTCP listens: there are no receive stamps here, which is said in each record.
func listenTCP(addr string, _ bool) (net.Listener, error) { return net.Listen("tcp", addr) }

// stampReader is Linux's alone.
type stampReader struct{ net.Conn }

func (s *stampReader) read(p []byte) (int, stamp, error) {
	n, err := s.Conn.Read(p)
	return n, stamp{by: ArrivalByProgram}, err
}
