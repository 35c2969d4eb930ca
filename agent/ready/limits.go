package ready

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/internal/lists"
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
		if err := l.check(ctx, endpoint, proxy != "", pins); err != nil {
			return nil, fmt.Errorf("target %s: endpoint %s: %w", target.GetName(), endpoint, err)
		}
	}
	if proxy == "" {
		return pins, nil
	}
	if err := l.check(ctx, proxy, false, pins); err != nil {
		return nil, fmt.Errorf("target %s: proxy %s, which would get all of the load: %w", target.GetName(), proxy, err)
	}
	return pins, nil
}

// check returns an error if the agent may not send anything to a URL. Behind a proxy only the name is checked, because
// the proxy looks it up.
func (l Limits) check(ctx context.Context, address string, behindProxy bool, pins allow.Pins) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return err
	case behindProxy:
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

// CheckRate returns an error if an open loop's stripe starts more requests per second, on average, than the agent may.
// rate is the highest rate of all agents together; 0: not known.
func (l Limits) CheckRate(rate float64, stripe *spatev1.Stripe) error {
	if own := rate * largestPart(stripe); l.MaxRate > 0 && own > l.MaxRate {
		return fmt.Errorf("the stripe has up to %.6g requests per second (%.6g over all agents), this agent's "+
			"limit is %.6g: raise its max rate, lower its weight or add agents", own, rate, l.MaxRate)
	}
	return nil
}

// largestPart returns the largest part, from 0 to 1, of all arrivals that the agent's rank has at any time, as the
// stripe's handovers come into effect one after the other.
func largestPart(s *spatev1.Stripe) float64 {
	parts := partsOf(s.GetWeights())
	own := func() float64 {
		if int(s.GetRank()) < len(parts) {
			return parts[s.GetRank()]
		}
		return 0
	}
	most := own()
	for _, h := range s.GetHandovers() {
		parts = handOver(parts, h)
		most = max(most, own())
	}
	return most
}

// handOver returns the parts after a handover. It changes parts in place.
func handOver(parts []float64, h *spatev1.Handover) []float64 {
	if int(h.GetFromRank()) >= len(parts) {
		return parts
	}
	given := parts[h.GetFromRank()]
	parts[h.GetFromRank()] = 0
	for p, part := range partsOf(h.GetWeights()) {
		for len(parts) <= p {
			parts = append(parts, 0)
		}
		parts[p] += given * part
	}
	return parts
}

// partsOf returns weights as fractions of their sum.
func partsOf(weights []uint32) []float64 {
	sum := lists.Sum(weights, func(w uint32) float64 { return float64(w) })
	parts := make([]float64, len(weights))
	for i, w := range weights {
		if w > 0 {
			parts[i] = float64(w) / sum
		}
	}
	return parts
}

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

// exceedsCapacity says how the stage exceeds what calibration found that this machine measures exactly, or returns "".
// Only streams and starts are compared: frames per second are not known before the load runs.
func (s *Stage) exceedsCapacity(c *spatev1.Capacity) string {
	if s.Closed != nil {
		if slots := s.Closed.Slots(); c.GetStreams() > 0 && slots > int(c.GetStreams()) {
			return fmt.Sprintf("was exact up to %d streams when it was calibrated, and this stage gives it %d",
				c.GetStreams(), slots)
		}
		return ""
	}
	if rate := s.Assigned.GetLoad().GetRate() * largestPart(s.Stripe); c.GetStartsPerSecond() > 0 &&
		rate > c.GetStartsPerSecond() {
		return fmt.Sprintf("was exact up to %.6g starts/s when it was calibrated, and this stage gives it up to %.6g",
			c.GetStartsPerSecond(), rate)
	}
	return ""
}

// bytesPerToken is what a token of a prompt in flight takes: 40 requests of 1,000,000 tokens took 435 MB.
const bytesPerToken = 11

// checkMemory returns an error if the prompts of the stage's requests in flight, as long as its first ones are, would
// take more than the given memory. 0: it is not known. A load that sets no limit on its requests in flight gets one.
func (s *Stage) checkMemory(memory uint64) error {
	each := s.promptTokens() * bytesPerToken * max(1, float64(s.limits.AgentsInProcess))
	if memory == 0 || each == 0 {
		return nil
	}
	streams := s.MaxStreams
	if s.Closed != nil {
		streams = s.Closed.Slots()
	} else if s.Assigned.GetLoad().GetMaxInFlight() == 0 {
		s.MaxStreams = int(max(1, min(float64(streams), float64(memory)/each)))
		return nil
	}
	if need := float64(streams) * each; need > float64(memory) {
		return fmt.Errorf("the stripe has up to %d requests in flight%s, and their prompts take some %.0f MiB, more than the "+
			"%d MiB of memory that this process may have: add agents on other machines, lower the load, or make prompts shorter",
			streams, s.limits.otherAgents(), need/(1<<20), memory>>20)
	}
	return nil
}

// promptTokens returns the mean length of the prompts of the first arrivals, of each the last turn. 0: not known.
func (s *Stage) promptTokens() (mean float64) {
	const most = 100
	for i := range uint64(most) {
		spec, err := s.Content.Spec(i, 0)
		if err == nil && spec.Turns > 1 {
			spec, err = s.Content.Spec(i, spec.Turns-1)
		}
		if err != nil {
			return 0
		}
		mean += float64(spec.ISL) * float64(max(spec.Texts, 1))
	}
	return mean / most
}
