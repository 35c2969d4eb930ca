package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// spread passes changes on to all who wait for them. It ends with Close.
func (c *Cluster) spread() {
	for {
		select {
		case <-c.stop:
			return
		case <-c.changed:
			c.mu.Lock()
			close(c.watch)
			c.watch = make(chan struct{})
			c.mu.Unlock()
		}
	}
}

// aloneRejoin is the pause between attempts while no other member is known.
const aloneRejoin = time.Second

// rejoin tries the seeds again and again, so that a cluster that was split, or whose seeds came up later or under a new address,
// becomes one. It ends with Close. The same trouble is logged once.
func (c *Cluster) rejoin() {
	if len(c.cfg.Seeds) == 0 {
		return
	}
	said := ""
	for {
		said = c.report(c.joinSeeds(), said)
		pause := c.cfg.Rejoin
		if c.list.NumMembers() == 1 {
			pause = min(pause, aloneRejoin)
		}
		select {
		case <-c.stop:
			return
		case <-time.After(pause):
		}
	}
}

// report logs trouble that was not said yet, and its end. It returns what has been said now.
func (c *Cluster) report(err error, said string) string {
	switch {
	case err != nil && err.Error() != said:
		c.log.Warn("gossip seeds cannot be joined, trying on", "error", err)
		return err.Error()
	case err == nil && said != "":
		c.log.Info("gossip seeds joined", "members", c.list.NumMembers())
		return ""
	default:
		return said
	}
}

// joinSeeds looks the seeds up and joins those that are not among the members. It fails if there are such and none answers.
func (c *Cluster) joinSeeds() error {
	known := map[string]bool{}
	for _, n := range c.list.Members() {
		known[gossipAddress(n)] = true
	}
	var missing []string
	var errs []error
	for _, seed := range c.cfg.Seeds {
		addrs, err := c.lookUp(seed)
		if err != nil {
			errs = append(errs, err)
		}
		for _, a := range addrs {
			if !known[a] {
				missing = append(missing, a)
			}
		}
	}
	if len(missing) > 0 {
		if _, err := c.list.Join(missing); err != nil {
			errs = append(errs, fmt.Errorf("membership: join %v (another label or key, or nobody there?): %w", missing, err))
		}
	}
	return errors.Join(errs...)
}

// lookUpTimeout bounds one look-up of a seed.
const lookUpTimeout = 5 * time.Second

// lookUp returns the addresses of a seed. A host name may have several.
func (c *Cluster) lookUp(seed string) ([]string, error) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		host, port = seed, strconv.Itoa(DefaultPort)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookUpTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("membership: seed %q: %w", seed, err)
	}
	for i, ip := range ips {
		ips[i] = net.JoinHostPort(ip, port)
	}
	return ips, nil
}
