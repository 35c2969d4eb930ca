package agent

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"net/url"

	"github.com/spate-load/spate/agent/allow"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// limits are what this agent may do, whatever it is assigned.
type limits struct {
	maxStreams uint32     // 0: no limit but the files'
	maxRate    float64    // requests per second; 0: no limit
	fileShares int        // the files' limit is for so many; 0 counts as 1
	targets    allow.List // whom it may send anything to
	resolver   allow.Resolver
	sources    []netip.Addr // of connections to targets; empty: what the system picks
}

// spareFiles are kept back for what a program opens beside its streams: the control connection, timers, name lookups.
const spareFiles = 64

// checkTargets returns an error for the first endpoint, or the proxy before them, that the agent may not send load to.
// It returns the addresses at which those it may are reached, and blocks while their names are looked up.
func (l limits) checkTargets(ctx context.Context, target *spatev1.Target) (allow.Pins, error) {
	pins := allow.Pins{}
	proxy := target.GetConnection().GetProxy()
	for _, endpoint := range target.GetEndpoints() {
		u, err := url.Parse(endpoint)
		if err == nil {
			err = l.check(ctx, u, proxy != "", pins)
		}
		if err != nil {
			return nil, fmt.Errorf("target %s: endpoint %s: %w", target.GetName(), endpoint, err)
		}
	}
	if proxy == "" {
		return pins, nil
	}
	u, err := url.Parse(proxy)
	if err == nil {
		err = l.check(ctx, u, false, pins)
	}
	if err != nil {
		return nil, fmt.Errorf("target %s: proxy %s, which would get all of the load: %w", target.GetName(), proxy, err)
	}
	return pins, nil
}

// check returns an error if the agent may not send anything to an address. Behind a proxy it is the proxy that looks
// the name up.
func (l limits) check(ctx context.Context, u *url.URL, behindProxy bool, pins allow.Pins) error {
	if behindProxy {
		return l.targets.CheckName(u)
	}
	return l.targets.Check(ctx, l.resolver, u, pins)
}

// checkStreams returns an error if so many requests in flight are more than the agent may hold.
func (l limits) checkStreams(streams int, f files) error {
	if l.maxStreams > 0 && streams > int(l.maxStreams) {
		return fmt.Errorf("the share has %d requests in flight, this agent takes on %d: raise its max streams or add agents", streams, l.maxStreams)
	}
	if streams > l.files(f) {
		need := streams*max(l.fileShares, 1) + f.open + spareFiles
		return fmt.Errorf("the share needs %d open files (%d requests in flight%s, %d files open now, %d spare), the limit is %d: "+
			"raise it (ulimit -n %d, LimitNOFILE= in a systemd unit) or add agents", need, streams, l.others(), f.open,
			spareFiles, f.limit, need)
	}
	return nil
}

// files is how many files the agent's streams may open.
func (l limits) files(f files) int { return (f.limit - f.open - spareFiles) / max(l.fileShares, 1) }

// others says for people that the agent is not alone in its process.
func (l limits) others() string {
	if l.fileShares <= 1 {
		return ""
	}
	return fmt.Sprintf(", and as many for each of %d others in this process", l.fileShares-1)
}

// streams is the most requests in flight the agent holds, at least 1.
func (l limits) streams(f files) int {
	most := max(1, l.files(f))
	if l.maxStreams > 0 {
		most = min(most, int(l.maxStreams))
	}
	return most
}

// advertised is what the coordinator is told of streams. 0: not known.
func (l limits) advertised(f files) uint32 {
	if l.maxStreams == 0 && f.limit == math.MaxInt {
		return 0
	}
	return uint32(min(l.streams(f), math.MaxInt32))
}

// files says how many files the process may have open, and how many it has.
type files struct{ limit, open int }
