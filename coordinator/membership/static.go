package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

// Static is a list of coordinators' gRPC addresses, host:port each, that needs no gossip. A host name is looked up anew
// each time and stands for all its addresses.
type Static []string

// Coordinators returns the addresses, IPs in place of host names, in the order of the list and each once. It blocks
// while names are looked up, for 5 s a name at most, and fails if nothing is left: a name that is not known is passed
// over as long as there are others.
func (s Static) Coordinators(ctx context.Context) ([]string, error) {
	return s.resolved(ctx, net.DefaultResolver.LookupHost)
}

func (s Static) resolved(ctx context.Context, resolve resolver) ([]string, error) {
	if len(s) == 0 {
		return nil, errors.New("membership: no coordinator address is given")
	}
	var out []string
	var errs []error
	for _, address := range s {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			errs = append(errs, fmt.Errorf("membership: coordinator %q: want host:port", address))
			continue
		}
		found, err := resolve.addresses(ctx, host, port)
		if err != nil {
			errs = append(errs, fmt.Errorf("membership: coordinator %q: %w", address, err))
		}
		for _, a := range found {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// resolver looks a host name up, as net.Resolver.LookupHost does. An IP is its own answer.
type resolver func(ctx context.Context, host string) ([]string, error)

// lookUpTimeout bounds one look-up.
const lookUpTimeout = 5 * time.Second

// addresses returns all addresses of a host, with the port, in an order that does not change from one look-up to the
// next.
func (r resolver) addresses(ctx context.Context, host, port string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	found, err := r(ctx, host)
	if err != nil {
		return nil, err
	}
	ips := slices.Sorted(slices.Values(found))
	for i, ip := range ips {
		ips[i] = net.JoinHostPort(ip, port)
	}
	return ips, nil
}

// splitSeed returns the host and the port of a seed, which may go without one.
func splitSeed(seed string) (host, port string) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return seed, strconv.Itoa(DefaultPort)
	}
	return host, port
}
