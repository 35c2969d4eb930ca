// Package allow decides to which hosts an agent may send anything. It holds a list of hosts, networks and ports that
// the agent's owner wrote, and the addresses that host names resolved to.
//
// Names are pinned. A host that is allowed by name is reached only at the addresses that the agent found for it before
// the stage, so a later change of the name leads nowhere new. The agent uses the package for endpoints, proxies and
// metrics alike.
package allow

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/lists"
)

// List is the list of allowed hosts. The zero value allows every host. It is safe for concurrent use.
type List struct{ entries []entry }

// entry allows one host pattern or one network, at one port or at all ports.
type entry struct {
	text    string
	pattern string       // of host names, in lower case; empty: network
	network netip.Prefix // of addresses
	quads   string       // pattern of IPv4 addresses with wildcards, such as 10.0.0.*
	port    string       // empty: any
}

// Parse reads entries:
//
//	llm.example.com       a host by its name
//	gpu-*.example.com     hosts by a pattern: * and ? stand for anything but a dot
//	10.0.0.7, 2001:db8::7 an address
//	10.0.0.*              addresses by a pattern, each * a part
//	10.0.0.0/24           a network
//
// Each entry may end with :PORT, and IPv6 then needs brackets: [2001:db8::/32]:8000. An empty list allows every host.
func Parse(entries []string) (List, error) {
	var l List
	var wrong []error
	for _, text := range entries {
		e, err := parse(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%q: %w", text, err))
			continue
		}
		l.entries = append(l.entries, e)
	}
	return l, errors.Join(wrong...)
}

// parse reads one entry.
func parse(text string) (entry, error) {
	host, port, err := split(text)
	if err != nil {
		return entry{}, err
	}
	e := entry{text: text, port: port}
	host = canonical(host)
	switch a, p, quads := address(host), network(host), quads(host); {
	case a.IsValid():
		e.network = netip.PrefixFrom(a, a.BitLen())
	case p.IsValid():
		e.network = p
	case quads:
		e.quads = host
	case validPattern(host):
		e.pattern = host
	default:
		return entry{}, errors.New("is not a host, address or network: write llm.example.com, gpu-*.example.com, " +
			"10.0.0.7 or 10.0.0.0/24, each with or without :PORT; IPv6 with :PORT needs brackets")
	}
	return e, nil
}

// split separates the port from an entry, and removes brackets.
func split(text string) (host, port string, err error) {
	rest, bracketed := strings.CutPrefix(text, "[")
	switch {
	case bracketed:
		var closed bool
		host, rest, closed = strings.Cut(rest, "]")
		if port, _ = strings.CutPrefix(rest, ":"); !closed || rest != "" && port == "" || rest != "" && rest[0] != ':' {
			return "", "", errors.New("write brackets as in [::1]:8000")
		}
	case strings.Count(text, ":") == 1:
		host, port, _ = strings.Cut(text, ":")
		if port == "" {
			return "", "", errors.New("the port is missing")
		}
	default:
		host = text // a name, an IPv4 address or network, or IPv6 without a port
	}
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return "", "", fmt.Errorf("%q is not a port from 1 to 65535", port)
	}
	return host, port, nil
}

// canonical returns the form of a host name that is compared: lower case, without a trailing dot.
func canonical(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// address parses an address. IPv4-mapped IPv6 becomes IPv4, and zones are ignored.
func address(host string) netip.Addr {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// network parses a network.
func network(host string) netip.Prefix {
	p, err := netip.ParsePrefix(host)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}
	}
	return p.Masked()
}

// quads reports whether a pattern is for IPv4 addresses: four parts of digits or wildcards, with at least one of each.
func quads(host string) bool {
	parts := strings.Split(host, ".")
	digits := strings.ContainsAny(host, "0123456789")
	invalid := slices.ContainsFunc(parts,
		func(p string) bool { return p == "" || strings.Trim(p, "0123456789*?") != "" })
	return len(parts) == 4 && digits && !invalid && strings.ContainsAny(host, "*?")
}

// validPattern reports whether a pattern can be a host name. The last part must not be all digits: some resolvers would
// take such a name for an address.
func validPattern(host string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-_*?"
	parts := strings.Split(host, ".")
	invalid := slices.ContainsFunc(parts, func(p string) bool { return p == "" || strings.Trim(p, allowed) != "" })
	return !invalid && strings.Trim(parts[len(parts)-1], "0123456789") != "" && len(host) < 254
}

// AllowsAll reports whether every host is allowed.
func (l List) AllowsAll() bool { return len(l.entries) == 0 }

// String returns the list as it was written.
func (l List) String() string {
	return strings.Join(lists.Each(l.entries, func(e entry) string { return e.text }), ", ")
}

// allowsName reports whether a host is allowed by name, whatever its addresses.
func (l List) allowsName(host, port string) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		return e.pattern != "" && e.matchesPort(port) && matches(e.pattern, host)
	})
}

// allowsAddress reports whether an address is allowed.
func (l List) allowsAddress(a netip.Addr, port string) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		switch {
		case !e.matchesPort(port) || e.pattern != "":
			return false
		case e.quads != "":
			return a.Is4() && matches(e.quads, a.String())
		default:
			return e.network.Contains(a)
		}
	})
}

func (e *entry) matchesPort(port string) bool { return e.port == "" || e.port == port }

// matches reports whether a host matches a pattern. It compares part by part, so that no wildcard matches a dot.
func matches(pattern, host string) bool {
	wanted, parts := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(wanted) != len(parts) {
		return false
	}
	for i, w := range wanted {
		if ok, err := path.Match(w, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// Resolver looks up a host name. net.DefaultResolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Pins holds the addresses at which hosts are reached, by host name in lower case. It has no entry for hosts given by
// address. If every host is allowed it has only names of several addresses: others are looked up for each connection.
type Pins map[string][]netip.Addr

// Check returns an error if the host of a URL is not allowed, and else pins its name. A name is allowed if the list has
// it, or if all its addresses are allowed. The error says what is allowed. Check blocks while it looks up the name.
func (l List) Check(ctx context.Context, r Resolver, u *url.URL, pins Pins) error {
	host, port := canonical(u.Hostname()), PortOf(u)
	if l.AllowsAll() {
		pins.spread(ctx, r, host)
		return nil
	}
	if a := address(host); a.IsValid() {
		if !l.allowsAddress(a, port) {
			return l.notAllowed(host, port, "")
		}
		return nil
	}
	addresses, err := pins.lookup(ctx, r, host) // also of allowed names, to pin them
	byName := l.allowsName(host, port)
	switch {
	case err != nil && byName:
		return fmt.Errorf("its name cannot be looked up: %w", err)
	case err != nil:
		return l.notAllowed(host, port, "")
	case byName:
		return nil
	}
	for _, a := range addresses {
		if !l.allowsAddress(a, port) {
			return l.notAllowed(host, port, fmt.Sprintf(", which has the address %s", a))
		}
	}
	return nil
}

// CheckName is Check for a host that something else looks up, such as a proxy. It checks the name or address alone.
func (l List) CheckName(u *url.URL) error {
	host, port := canonical(u.Hostname()), PortOf(u)
	a := address(host)
	if l.AllowsAll() || a.IsValid() && l.allowsAddress(a, port) || !a.IsValid() && l.allowsName(host, port) {
		return nil
	}
	return l.notAllowed(host, port, "")
}

// notAllowed returns the error for a host that is not allowed. It says which hosts are.
func (l List) notAllowed(host, port, detail string) error {
	return fmt.Errorf("this agent's configuration allows load only to %s, not to port %s of %s%s: add the host to "+
		"its allow-target if the agent may send load there", l, port, host, detail)
}

// lookup returns the addresses of a name. It looks each name up only once.
func (p Pins) lookup(ctx context.Context, r Resolver, host string) ([]netip.Addr, error) {
	if known, ok := p[host]; ok {
		return known, nil
	}
	found, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	p[host] = found
	return found, nil
}

// spread pins a name that has several addresses of the family of its first one, so that connections are spread over
// them. Those of this machine are not: a server may listen on one of them alone.
func (p Pins) spread(ctx context.Context, r Resolver, host string) {
	if r == nil || address(host).IsValid() {
		return
	}
	all, err := p.lookup(ctx, r, host)
	if err != nil {
		return // connecting fails with the same error
	}
	all = slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool {
		return a.Is4() != all[0].Is4() || a.IsLoopback()
	})
	if p[host] = all; len(all) < 2 {
		delete(p, host)
	}
}

// Of returns the addresses that a host is pinned to, and whether it is pinned.
func (p Pins) Of(host string) ([]netip.Addr, bool) {
	a, ok := p[canonical(host)]
	return a, ok
}

// PortOf returns the port of a URL, or the default port of its scheme.
func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}
