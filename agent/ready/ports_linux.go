package ready

import (
	"fmt"
	"os"
)

// countPorts returns how many local ports the kernel has for connections from one address to one endpoint. 0: not
// known.
func countPorts() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0
	}
	var first, last int
	if n, _ := fmt.Sscan(string(text), &first, &last); n < 2 || last < first {
		return 0
	}
	return last - first + 1
}
