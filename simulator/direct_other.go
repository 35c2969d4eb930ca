//go:build !linux

package simulator

import "net"

// direct exists only on Linux. Elsewhere the handlers send.
type direct struct{}

func newDirect(net.Conn) *direct { return nil }

func (*direct) send(b []byte, _ *frameWriter) ([]byte, bool) { return b, false }

func (*direct) flush() error { return nil }
