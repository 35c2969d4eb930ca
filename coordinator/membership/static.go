package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Static is a list of coordinators' gRPC addresses, each host:port, for use without gossip. A host name is looked up
// each time and stands for all its addresses.
type Static []string

// Coordinators returns the addresses, with IPs in place of host names, in the order of the list and without duplicates.
// It blocks while names are looked up, for at most 5 s per name. Names that cannot be resolved are skipped; it fails if
// no address is left.
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

// resolver looks a host name up, like net.Resolver.LookupHost. An IP resolves to itself.
type resolver func(ctx context.Context, host string) ([]string, error)

// lookUpTimeout bounds each look-up.
const lookUpTimeout = 5 * time.Second

// addresses returns all addresses of a host, with the port, sorted so that the order is the same each time.
func (r resolver) addresses(ctx context.Context, host, port string) ([]string, error) {
	if host == "unix" && strings.HasPrefix(port, "/") { // a socket in the file system
		return []string{"unix:" + port}, nil
	}
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

// splitSeed returns the host and the port of a seed. Without a port it is DefaultPort.
func splitSeed(seed string) (host, port string) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return seed, strconv.Itoa(DefaultPort)
	}
	return host, port
}
