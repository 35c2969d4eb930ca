package ready

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"net/url"

	"github.com/spate-load/spate/agent/allow"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Limits are what this agent may do, whatever its assignment.
type Limits struct {
	MaxStreams      uint32     // 0: only the limit of open files
	MaxRate         float64    // requests per second; 0: no limit
	AgentsInProcess int        // agents that share the limit of open files; 0 counts as 1
	Targets         allow.List // hosts to which it may send anything
	Resolver        allow.Resolver
	Sources         []netip.Addr // of connections to targets; empty: the system picks one
	PacketTimes     bool         // take the times of packets
}

// spareFiles are reserved for what the process opens besides its streams: the control connection, timers, name lookups.
const spareFiles = 64

// checkTargets returns an error for the first endpoint, or the proxy before them, to which the agent may not send load.
// Else it returns the addresses of the allowed hosts. It blocks while names are looked up.
func (l Limits) checkTargets(ctx context.Context, target *spatev1.Target) (allow.Pins, error) {
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

// check returns an error if the agent may not send anything to a URL. Behind a proxy only the name is checked, because
// the proxy looks it up.
func (l Limits) check(ctx context.Context, u *url.URL, behindProxy bool, pins allow.Pins) error {
	if behindProxy {
		return l.Targets.CheckName(u)
	}
	return l.Targets.Check(ctx, l.Resolver, u, pins)
}

// checkStreams returns an error if the agent may not hold that many requests in flight.
func (l Limits) checkStreams(streams int, f files) error {
	if l.MaxStreams > 0 && streams > int(l.MaxStreams) {
		return fmt.Errorf("the stripe has up to %d requests in flight, this agent's limit is %d: raise its max "+
			"streams or add agents", streams, l.MaxStreams)
	}
	if streams > l.files(f) {
		need := streams*max(l.AgentsInProcess, 1) + f.open + spareFiles
		return fmt.Errorf("the stripe needs %d open files (%d requests in flight%s, %d files open now, %d spare), "+
			"the limit is %d: raise it (ulimit -n %d, LimitNOFILE= in a systemd unit) or add agents",
			need, streams, l.otherAgents(), f.open,
			spareFiles, f.limit, need)
	}
	return nil
}

// files returns how many files the agent's streams may open.
func (l Limits) files(f files) int {
	return (f.limit - f.open - spareFiles) / max(l.AgentsInProcess, 1)
}

// otherAgents describes the other agents in the process for a message, or returns "" if there are none.
func (l Limits) otherAgents() string {
	if l.AgentsInProcess <= 1 {
		return ""
	}
	return fmt.Sprintf(", and as many for each of %d other agents in this process", l.AgentsInProcess-1)
}

// streams returns the maximum number of requests in flight, at least 1.
func (l Limits) streams(f files) int {
	most := max(1, l.files(f))
	if l.MaxStreams > 0 {
		most = min(most, int(l.MaxStreams))
	}
	return most
}

// Advertised returns the number of streams to report to the coordinator. 0: not known.
func (l Limits) Advertised() uint32 { return l.advertised(countFiles()) }

func (l Limits) advertised(f files) uint32 {
	if l.MaxStreams == 0 && f.limit == math.MaxInt {
		return 0
	}
	return uint32(min(l.streams(f), math.MaxInt32))
}

// files is the process's limit of open files, and how many are open.
type files struct{ limit, open int }
