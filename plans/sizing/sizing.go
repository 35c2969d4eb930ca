// Package sizing calculates the cores, agents, memory and disk that a load takes, from what the parts of Spate were
// measured to cost. It is pure. docs/scale.md has the formulas, and where each figure comes from.
package sizing

import (
	"errors"
	"fmt"
	"math"
)

// What the parts cost. docs/scale.md names the measurement of each.
const (
	frameCPU    = 9e-6   // CPU seconds of an agent for a frame
	tlsFrameCPU = 0.9e-6 // more with TLS
	requestCPU  = 73e-6  // CPU seconds of an agent for a request, with its first frame
	streamBytes = 25 << 10
	agentBytes  = 320 << 20 // garbage that an agent lets accumulate, and its program

	snapshotCPU    = 320e-6 // CPU seconds of a coordinator for a second of an agent: snapshot, heartbeat
	agentHeldBytes = 320 << 10
	coordinatorMiB = 64
	snapshotBytes  = 6600 // in the ledger, and about as much on the network

	// With relays: what a coordinator needs for a second of a relay, and for a second of an agent behind one.
	addedUpCPU, relayedCPU       = 25e-3, 30e-6
	addedUpBytes, relayedBytes   = 38_000, 50
	addedUpLedger, relayedLedger = 130_000, 600
	relayCPU                     = 310e-6 // CPU seconds of a relay for a second of an agent

	portsEach  = 28_232 // connections from one address to an endpoint, by Linux's range of ports
	spareFiles = 64     // files of an agent besides its streams
)

// Load is a load to be sized.
type Load struct {
	// Streams is the number of requests in flight, TokensPerSecond how many tokens each receives per second, one in
	// each frame, and OutputTokens how many a request has.
	Streams         int
	TokensPerSecond float64
	OutputTokens    int
	// TLS says that endpoints are https.
	TLS bool
	// Endpoints is the number of endpoints of the target, Regions in how many regions there must be agents.
	Endpoints, Regions int
}

// Machines describes the machines of agents and coordinator.
type Machines struct {
	// Cores is the number of cores of an agent's machine.
	Cores int
	// Busy is the part of these cores that the load may take, from 0 to 1. Times are exact as long as cores are not
	// busy for long.
	Busy float64
	// Relays is the number of relays between agents and coordinator.
	Relays int
}

// Size is what a load takes.
type Size struct {
	// Frames and Requests are the numbers per second.
	Frames, Requests float64
	// FrameCores and RequestCores are the CPU time per second that they take, Cores is how many cores the agents need
	// so that they are busy for no more than Machines.Busy.
	FrameCores, RequestCores float64
	Cores                    int
	// Agents is the number of agents, one on each machine, and Because what decides it.
	Agents  int
	Because string
	// Streams, Files and Memory are the streams, open files and bytes of the busiest agent.
	Streams, Files int
	Memory         uint64
	// Coordinator is what the coordinator takes. A run has one.
	Coordinator Coordinator
	// Relay is what each relay takes. Nil: there are none.
	Relay *Relay
}

// Relay is what a relay takes.
type Relay struct {
	// Agents is the number of its agents, CPU its CPU time per second, Memory its bytes, Files how many files it opens.
	Agents int
	CPU    float64
	Memory uint64
	Files  int
}

// Coordinator is what a coordinator takes.
type Coordinator struct {
	// CPU is its CPU time per second, Cores how many cores it needs, and Memory its bytes.
	CPU    float64
	Cores  int
	Memory uint64
	// Ledger is how many bytes a second it writes, without rows of requests, and Received how many it receives.
	Ledger, Received float64
	// Files is how many files it opens.
	Files int
}

// check returns all mistakes.
func (l Load) check(m Machines) error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(l.Streams >= 1 && l.Streams <= 1e9, "%d streams: want 1 to 1,000,000,000", l.Streams)
	require(l.TokensPerSecond > 0 && l.TokensPerSecond <= 1e5, "%g tokens per second and stream: want more than 0, at "+
		"most 100,000", l.TokensPerSecond)
	require(l.OutputTokens >= 1 && l.OutputTokens <= 1e7, "%d output tokens: want 1 to 10,000,000", l.OutputTokens)
	require(l.Endpoints >= 1 && l.Endpoints <= 1e6, "%d endpoints: want 1 to 1,000,000", l.Endpoints)
	require(l.Regions >= 1 && l.Regions <= 1e6, "%d regions: want 1 to 1,000,000", l.Regions)
	require(m.Cores >= 1 && m.Cores <= 4096, "%d cores: want 1 to 4,096", m.Cores)
	require(m.Relays >= 0 && m.Relays <= 1e4, "%d relays: want 0 to 10,000", m.Relays)
	require(m.Busy > 0 && m.Busy <= 1, "%g of a core busy: want more than 0, at most 1", m.Busy)
	return errors.Join(errs...)
}

// Of returns what a load takes on such machines, or all mistakes in the arguments.
func Of(l Load, m Machines) (Size, error) {
	if err := l.check(m); err != nil {
		return Size{}, err
	}
	s := Size{Frames: float64(l.Streams) * l.TokensPerSecond}
	s.Requests = s.Frames / float64(l.OutputTokens)
	each := frameCPU
	if l.TLS {
		each += tlsFrameCPU
	}
	s.FrameCores, s.RequestCores = each*s.Frames, requestCPU*s.Requests
	s.Cores = upwards((s.FrameCores + s.RequestCores) / m.Busy)
	s.Agents, s.Because = agents(s.Cores, l, m)
	s.Streams = upwards(float64(l.Streams) / float64(s.Agents))
	s.Files, s.Memory = s.Streams+spareFiles, agentBytes+uint64(s.Streams)*streamBytes
	s.Coordinator, s.Relay = coordinatorOf(float64(s.Agents), m), relayOf(s.Agents, m)
	return s, nil
}

// agents returns the number of agents and what decides it.
func agents(cores int, l Load, m Machines) (number int, because string) {
	number, because = upwards(float64(cores)/float64(m.Cores)), "cores"
	if n := upwards(float64(l.Streams) / (portsEach * float64(l.Endpoints))); n > number {
		number, because = n, "source ports"
	}
	if l.Regions > number {
		number, because = l.Regions, "regions"
	}
	return number, because
}

func coordinatorOf(agents float64, m Machines) Coordinator {
	c := Coordinator{
		CPU: snapshotCPU * agents, Memory: coordinatorMiB<<20 + uint64(agents)*agentHeldBytes,
		Ledger: snapshotBytes * agents, Received: snapshotBytes * agents, Files: 2*int(agents) + spareFiles,
	}
	if m.Relays > 0 {
		relays := float64(m.Relays)
		c.CPU, c.Files = min(c.CPU, addedUpCPU*relays+relayedCPU*agents), 2*m.Relays+spareFiles
		c.Ledger = min(c.Ledger, addedUpLedger*relays+relayedLedger*agents)
		c.Received = min(c.Received, addedUpBytes*relays+relayedBytes*agents)
	}
	c.Cores = upwards(c.CPU / m.Busy)
	return c
}

// relayOf returns what each relay takes, if there are any.
func relayOf(agents int, m Machines) *Relay {
	if m.Relays == 0 {
		return nil
	}
	n := upwards(float64(agents) / float64(m.Relays))
	return &Relay{
		Agents: n, CPU: relayCPU * float64(n), Memory: coordinatorMiB<<20 + uint64(n)*agentHeldBytes,
		Files: 2*n + 2 + spareFiles,
	}
}

// upwards rounds up, to at least 1.
func upwards(x float64) int { return max(1, int(math.Ceil(x-1e-9))) }
