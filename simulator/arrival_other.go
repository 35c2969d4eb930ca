//go:build !linux

package simulator

import "net"

// listenStamped listens: there are no receive stamps here, which is said in each record.
func listenStamped(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// stampReader is Linux's alone.
type stampReader struct{ net.Conn }

func (s *stampReader) read(p []byte) (int, stamp, error) {
	n, err := s.Conn.Read(p)
	return n, stamp{by: ArrivalByProgram}, err
}
