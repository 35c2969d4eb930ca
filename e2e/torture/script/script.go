// Package script draws a torture run from a seed: a plan, a cluster and faults at random moments.
//
// It knows nothing about the programs under test, so that the judge can take from it what was asked for.
package script

import (
	"fmt"
	"strings"
	"time"
)

// Script is everything that a run is made of. It is a function of its seed.
type Script struct {
	Seed uint64
	// Messages means that coordinator and agents are in one process, and that the faults affect single messages.
	Messages bool
	// Policy is the plan's on_agent_loss.
	Policy string
	// Lease is the coordinator's lease for agents.
	Lease time.Duration
	// Agents are the agents that are there from the start.
	Agents []Agent
	// Regions splits the load by regions.
	Regions bool
	// Loads are the stages.
	Loads []Load
	// Records is the form of the request rows.
	Records string
	// OutputTokens is the number of tokens in each answer, Step the time that each takes.
	OutputTokens int
	Step         time.Duration
	// Faults are sorted by their moments.
	Faults []Fault
	// Dup, Hold and Lose are the probabilities that a message is delivered twice, that it is delivered after the next
	// ones, and that an ack is lost together with the connection.
	Dup, Hold, Lose float64
}

// Agent is an agent of a script.
type Agent struct {
	Name   string
	Region string
	Weight int
	// Skew is how far its clocks since boot are ahead.
	Skew time.Duration
}

// Load is a stage of a script.
type Load struct {
	// Rate is for an open loop, Concurrency for a closed one. The other is 0.
	Rate, Concurrency int
	// Arrival is "constant" or "poisson".
	Arrival string
	// For is its duration. If Requests are given, the load ends by them, after about that time.
	For      time.Duration
	Requests int
	// Warmup is the number of unmeasured requests.
	Warmup int
}

// Kind names a fault.
type Kind string

// Faults of processes, links, the target and the coordinator's disk.
const (
	KillAgent       Kind = "kill-agent"       // SIGKILL; For: until a new process with the name, 0: there is none
	KillCoordinator Kind = "kill-coordinator" // SIGKILL; For: until it is restarted
	StopAgent       Kind = "stop-agent"       // SIGSTOP and, after For, SIGCONT
	Partition       Kind = "partition"        // no bytes either way for For
	Reset           Kind = "reset"            // all connections
	SlowLink        Kind = "slow-link"        // Bytes per second for For
	DelayLink       Kind = "delay-link"       // Delay and Jitter each way for For
	SlowTarget      Kind = "slow-target"      // Delay and Jitter on the way to the endpoint and back
	FullDisk        Kind = "full-disk"        // of the coordinator, for good
)

// Fault is one fault of a script.
type Fault struct {
	// At is its moment, counted from the submission of the run.
	At   time.Duration
	Kind Kind
	// Agent is its place in Script.Agents.
	Agent int
	// For is how long it lasts.
	For           time.Duration
	Bytes         int
	Delay, Jitter time.Duration
}

// String describes the fault in a few words.
func (f Fault) String() string {
	words := fmt.Sprintf("%v %s", f.At, f.Kind)
	if f.OfAgent() {
		words += " " + AgentName(f.Agent)
	}
	if f.For > 0 {
		words += fmt.Sprintf(" for %v", f.For)
	}
	if f.Bytes > 0 {
		words += fmt.Sprintf(" at %d B/s", f.Bytes)
	}
	if f.Delay > 0 {
		words += fmt.Sprintf(" by %v±%v", f.Delay, f.Jitter)
	}
	return words
}

// OfAgent reports whether the fault affects one agent.
func (f Fault) OfAgent() bool {
	return f.Kind != KillCoordinator && f.Kind != SlowTarget && f.Kind != FullDisk
}

// silences reports whether the fault keeps an agent from being heard.
func (f Fault) silences() bool {
	return f.Kind == KillCoordinator || f.Kind == StopAgent || f.Kind == Partition || f.Kind == Reset
}

// AgentName returns the name of the agent at a place.
func AgentName(place int) string { return fmt.Sprintf("agent-%d", place) }

// String describes the script in one line.
func (s Script) String() string {
	var loads, faults []string
	for _, l := range s.Loads {
		loads = append(loads, l.String())
	}
	for _, f := range s.Faults {
		faults = append(faults, f.String())
	}
	if s.Messages {
		faults = append(faults, fmt.Sprintf("messages: %.0f %% twice, %.0f %% held back, %.1f %% of acks lost",
			100*s.Dup, 100*s.Hold, 100*s.Lose))
	}
	return fmt.Sprintf("%s, lease %v, %d agents, %s; %s", s.Policy, s.Lease, len(s.Agents),
		strings.Join(loads, " then "), strings.Join(faults, "; "))
}

// String describes the load in a few words.
func (l Load) String() string {
	words := fmt.Sprintf("%d/s %s", l.Rate, l.Arrival)
	if l.Concurrency > 0 {
		words = fmt.Sprintf("concurrency %d", l.Concurrency)
	}
	if l.Requests > 0 {
		return fmt.Sprintf("%s, %d requests", words, l.Requests)
	}
	return fmt.Sprintf("%s for %v", words, l.For)
}

// Length returns how long the stages last if nothing delays them.
func (s Script) Length() time.Duration {
	var sum time.Duration
	for _, l := range s.Loads {
		sum += l.For
	}
	return sum
}

// Drain is the plan's drain_timeout: longer than any answer takes.
const Drain = 15 * time.Second

// Bound returns how long the run may take from its submission to its end, on a busy machine: its stages, what its
// faults can add to them, what is waited for at their ends, and a minute.
func (s Script) Bound() time.Duration {
	bound := s.Length() + time.Minute
	for _, f := range s.Faults {
		bound += f.For
	}
	return bound + time.Duration(len(s.Loads))*(s.Lease+Drain+10*time.Second)
}

// Plan returns the plan as YAML, for an endpoint.
func (s Script) Plan(endpoint string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: torture\nseed: %d\non_agent_loss: %s\ndrain_timeout: %v\n", s.Seed, s.Policy, Drain)
	if s.Regions {
		b.WriteString("regions: {eu: 0.6, us: 0.4}\n")
	}
	fmt.Fprintf(&b, "targets:\n  - {name: server, endpoints: [%q], model: m}\n", endpoint)
	fmt.Fprintf(&b, "workloads:\n  - random: {isl: 20, osl: %d}\nloads:\n", s.OutputTokens)
	for _, l := range s.Loads {
		l.write(&b)
	}
	return b.String()
}

// write appends the load's YAML.
func (l Load) write(b *strings.Builder) {
	if l.Concurrency > 0 {
		fmt.Fprintf(b, "  - concurrency: [%d]\n", l.Concurrency)
	} else {
		fmt.Fprintf(b, "  - rate: [%d]\n    arrival: %s\n", l.Rate, l.Arrival)
	}
	if l.Requests > 0 {
		fmt.Fprintf(b, "    requests: %d\n", l.Requests)
	} else {
		fmt.Fprintf(b, "    duration: %v\n", l.For)
	}
	if l.Warmup > 0 {
		fmt.Fprintf(b, "    warmup: {requests: %d}\n", l.Warmup)
	}
}
