// Package allow decides whom an agent may send anything to: a list of hosts, networks and ports that its owner wrote,
// and the addresses that a host's name stood for when it was looked up.
//
// Names are pinned. Who is allowed by name is reached at the addresses that the agent found for it before the stage,
// and at no others, so that a name that changes its meaning in between leads nowhere new. The agent asks it for
// endpoints, proxies and metrics alike.
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
)

// List says who may be sent to. The zero value allows everybody. It is safe for concurrent use.
type List struct{ entries []entry }

// entry allows one host pattern or one network, at one port or all.
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
// Each may end with :PORT, IPv6 in brackets then: [2001:db8::/32]:8000. No entry at all allows everybody.
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
	case soundPattern(host):
		e.pattern = host
	default:
		return entry{}, errors.New("is no host, address or network: write llm.example.com, gpu-*.example.com, 10.0.0.7, 10.0.0.0/24, " +
			"or any of them with :PORT, IPv6 in brackets then")
	}
	return e, nil
}

// split takes the port off an entry, and brackets.
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
		return "", "", fmt.Errorf("%q is no port from 1 to 65535", port)
	}
	return host, port, nil
}

// canonical is a host's name in the one form that is compared: in lower case, without the root's dot.
func canonical(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// address reads an address. IPv4 within IPv6 is IPv4, and zones do not count.
func address(host string) netip.Addr {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// network reads a network.
func network(host string) netip.Prefix {
	p, err := netip.ParsePrefix(host)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}
	}
	return p.Masked()
}

// quads reports whether a pattern is of IPv4 addresses: four parts, digits or wildcards, at least one of each.
func quads(host string) bool {
	parts := strings.Split(host, ".")
	digits := strings.ContainsAny(host, "0123456789")
	odd := slices.ContainsFunc(parts, func(p string) bool { return p == "" || strings.Trim(p, "0123456789*?") != "" })
	return len(parts) == 4 && digits && !odd && strings.ContainsAny(host, "*?")
}

// soundPattern reports whether a pattern can be a host's name. A name of digits alone would be taken for an address by
// some resolvers.
func soundPattern(host string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-_*?"
	parts := strings.Split(host, ".")
	odd := slices.ContainsFunc(parts, func(p string) bool { return p == "" || strings.Trim(p, allowed) != "" })
	return !odd && strings.Trim(parts[len(parts)-1], "0123456789") != "" && len(host) < 254
}

// Any reports whether everybody is allowed.
func (l List) Any() bool { return len(l.entries) == 0 }

// String is the list as it was written.
func (l List) String() string {
	texts := make([]string, len(l.entries))
	for i, e := range l.entries {
		texts[i] = e.text
	}
	return strings.Join(texts, ", ")
}

// name reports whether a host is allowed by its name, whatever address it has.
func (l List) name(host, port string) bool {
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		return e.pattern != "" && e.at(port) && matches(e.pattern, host)
	})
}

// address reports whether an address is allowed.
func (l List) address(a netip.Addr, port string) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(l.entries, func(e entry) bool {
		switch {
		case !e.at(port) || e.pattern != "":
			return false
		case e.quads != "":
			return a.Is4() && matches(e.quads, a.String())
		default:
			return e.network.Contains(a)
		}
	})
}

func (e *entry) at(port string) bool { return e.port == "" || e.port == port }

// matches compares part by part, so that no wildcard reaches over a dot.
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

// Resolver looks a host's name up. net.DefaultResolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Pins are the addresses at which hosts are reached, by their names as they stand in URLs, in lower case. Hosts that
// are addresses are not among them, nor is anybody where everybody is allowed: their names are looked up whenever a
// connection is made.
type Pins map[string][]netip.Addr

// Check decides about the host of a URL, and pins its name. A name is allowed if the list has it, or if each of its
// addresses is; the error says what is allowed. It blocks while a name is looked up.
func (l List) Check(ctx context.Context, r Resolver, u *url.URL, pins Pins) error {
	if l.Any() {
		return nil
	}
	host, port := canonical(u.Hostname()), portOf(u)
	if a := address(host); a.IsValid() {
		if !l.address(a, port) {
			return l.refuse(host, port, "")
		}
		return nil
	}
	addresses, err := pins.lookup(ctx, r, host) // of names that are allowed, too: they are pinned
	byName := l.name(host, port)
	switch {
	case err != nil && byName:
		return fmt.Errorf("its name cannot be looked up: %w", err)
	case err != nil:
		return l.refuse(host, port, "")
	case byName:
		return nil
	}
	for _, a := range addresses {
		if !l.address(a, port) {
			return l.refuse(host, port, fmt.Sprintf(", which has the address %s", a))
		}
	}
	return nil
}

// CheckName decides about a host that somebody else looks up, as a proxy does: by its name or address alone.
func (l List) CheckName(u *url.URL) error {
	host, port := canonical(u.Hostname()), portOf(u)
	a := address(host)
	if l.Any() || a.IsValid() && l.address(a, port) || !a.IsValid() && l.name(host, port) {
		return nil
	}
	return l.refuse(host, port, "")
}

// refuse says who is not allowed, and who is.
func (l List) refuse(host, port, detail string) error {
	return fmt.Errorf("the configuration of this agent allows load to %s only, not to port %s of %s%s: add that to its allow-target if it may send there", l, port, host, detail)
}

// lookup finds the addresses of a name, once.
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

// Of are the addresses that a host is pinned to, and whether it is.
func (p Pins) Of(host string) ([]netip.Addr, bool) {
	a, ok := p[canonical(host)]
	return a, ok
}

// portOf is the port that a URL leads to.
func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}
