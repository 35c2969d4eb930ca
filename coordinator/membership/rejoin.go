package membership

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/lists"
)

// aloneRejoin is the pause between attempts while no other member is known.
const aloneRejoin = time.Second

// rejoin retries the seeds every Rejoin, so that a cluster becomes one even if it was split or its seeds start later or
// under a new address. It returns at Close. The same error is logged once.
func (c *Cluster) rejoin(ctx context.Context) {
	if len(c.cfg.Seeds) == 0 {
		return
	}
	said := ""
	for {
		said = c.report(c.joinSeeds(ctx), said)
		pause := c.cfg.Rejoin
		if c.roster.size() == 1 {
			pause = min(pause, aloneRejoin)
		}
		select {
		case <-c.stop:
			return
		case <-time.After(pause):
		}
	}
}

// report logs an error unless it was the last one logged, and logs once when the error is over. It returns the last
// logged error, empty if it is over.
func (c *Cluster) report(err error, said string) string {
	switch {
	case err != nil && err.Error() != said:
		c.log.Warn("gossip seeds cannot be joined; retrying", "error", err, "hint", "for a coordinator's own address, give "+
			"--coordinator HOST:PORT, or --join the invitation spate://... that it printed")
		return err.Error()
	case err == nil && said != "":
		c.log.Info("gossip seeds joined", "members", c.roster.size())
		return ""
	default:
		return said
	}
}

// joinSeeds looks the seeds up and joins those that are not members. It fails if a seed has no address that belongs to
// a member or answers.
func (c *Cluster) joinSeeds(ctx context.Context) error {
	known := lists.Set(lists.Each(c.roster.all(), func(m Member) string { return m.Gossip }))
	errs := lists.Each(c.cfg.Seeds, func(seed string) error { return c.joinSeed(ctx, seed, known) })
	return errors.Join(errs...)
}

// joinSeed joins the addresses of one seed that are not known yet. One known or joined address is enough: other
// addresses of a host name may be gone, or not be routable from this machine.
func (c *Cluster) joinSeed(ctx context.Context, seed string, known map[string]bool) error {
	addrs, err := c.lookUp(ctx, seed)
	missing := slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return known[a] })
	if len(missing) == 0 {
		if len(addrs) > 0 {
			return nil
		}
		return err
	}
	joined, jerr := c.list.Join(missing)
	if joined > 0 || len(missing) < len(addrs) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("membership: join %s (another cluster or key, or nothing listening there?): %s",
		strings.Join(missing, ", "), reasons(jerr)))
}

// reasons returns memberlist's list of errors in one line.
func reasons(err error) string {
	list, ok := errors.AsType[interface {
		error
		WrappedErrors() []error
	}](err)
	if !ok {
		return err.Error()
	}
	texts := lists.Each(list.WrappedErrors(), error.Error)
	return strings.Join(texts, "; ")
}

// lookUp returns the addresses of a seed that can reach this member. A host name may have several.
func (c *Cluster) lookUp(ctx context.Context, seed string) ([]string, error) {
	host, port := splitSeed(seed)
	found, err := c.cfg.resolve.addresses(ctx, host, port)
	if err != nil {
		return nil, fmt.Errorf("membership: seed %q: %w", seed, err)
	}
	self, err := netip.ParseAddr(c.list.LocalNode().Addr.String())
	if err != nil {
		return nil, fmt.Errorf("membership: own address: %w", err)
	}
	var out []string
	var errs []error
	for _, a := range found {
		peer, err := netip.ParseAddrPort(a)
		if err == nil {
			err = reachable(self, peer.Addr())
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, a)
	}
	return out, errors.Join(errs...)
}
