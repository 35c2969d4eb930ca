package ready

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/spate-load/spate/agent/stream/socket"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// SourceAddresses parses the addresses that connections are made from, and checks that they belong to this machine.
func SourceAddresses(texts []string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil || a.IsUnspecified() || a.IsMulticast():
			return nil, fmt.Errorf("source addresses: %q is not a unicast IP address: write an address of this "+
				"machine, such as 10.0.0.7", text)
		case seen[a]:
			return nil, fmt.Errorf("source addresses: %s is listed twice", text)
		}
		seen[a] = true
		l, err := net.ListenPacket("udp", net.JoinHostPort(text, "0"))
		if err != nil {
			return nil, fmt.Errorf("source addresses: %s is not available on this machine: add it to an interface "+
				"(ip address add) or remove it from the list: %w", text, err)
		}
		_ = l.Close() // only opened to check the address
		addresses = append(addresses, a)
	}
	return addresses, nil
}

// ports counts the connections that the machine can have open to a target: one range of ports for each pair of source
// and destination address. An endpoint given by name counts as one address.
type ports struct{ each, sources, endpoints int }

// portsTowards counts the ports towards a target. The zero value means that they are not known.
func (l Limits) portsTowards(t *spatev1.Target) ports {
	_, each := socket.LocalPorts()
	if each == 0 {
		return ports{}
	}
	hops := map[string]bool{}
	for _, endpoint := range t.GetEndpoints() {
		if t.GetConnection().GetProxy() != "" {
			endpoint = t.GetConnection().GetProxy()
		}
		if u, err := url.Parse(endpoint); err == nil {
			hops[u.Scheme+u.Host] = true
		}
	}
	return ports{each: each, sources: max(1, len(l.Sources)), endpoints: max(1, len(hops))}
}

// connections returns how many connections each of several agents may have. 0: not known.
func (p ports) connections(agents int) int { return p.each * p.sources * p.endpoints / max(agents, 1) }

// checkPorts returns an error if there are not enough ports for that many requests in flight.
func (l Limits) checkPorts(streams int, p ports) error {
	most := p.connections(l.AgentsInProcess)
	if most == 0 || streams <= most {
		return nil
	}
	return fmt.Errorf("the stripe has up to %d requests in flight, and this machine has ports for %d "+
		"connections%s: %d (net.ipv4.ip_local_port_range) for each of %d source addresses and %d endpoints: give "+
		"the agent more source addresses (--source-address), widen the range "+
		`(sysctl -w net.ipv4.ip_local_port_range="1024 65535") or add agents on other machines`, streams, most,
		l.otherAgents(), p.each, p.sources, p.endpoints)
}
