//go:build !linux

package yielding

import "net"

// Conn returns the connection unchanged: it cannot yield on this system.
func Conn(of net.Conn) net.Conn { return of }
