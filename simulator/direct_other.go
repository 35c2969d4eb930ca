//go:build !linux

package simulator

import "net"

// direct is Linux's alone: elsewhere handlers send.
type direct struct{}

func newDirect(net.Conn) *direct { return nil }

func (*direct) send(b []byte, _ *pen) ([]byte, bool) { return b, false }

func (*direct) flush() error { return nil }
