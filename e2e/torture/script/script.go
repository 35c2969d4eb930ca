// Package script draws what a torture run is made of: a plan, a cluster and faults at drawn moments, from a seed alone.
//
// It knows nothing of the programs under test, so that the judge may take what was asked for from here.
package script

import (
	"fmt"
	"strings"
	"time"
)

// Script is all that a run is made of. It is a function of its seed.
type Script struct {
	Seed uint64
	// Messages says that coordinator and agents are in one process, and that the faults are of single messages.
	Messages bool
	// Policy is on_agent_loss.
	Policy string
	// Lease is the coordinator's.
	Lease time.Duration
	// Agents are those that are there from the begin.
	Agents []Agent
	// Regions splits the load by regions.
	Regions bool
	// Loads are the stages.
	Loads []Load
	// Records is the form of the rows.
	Records string
	// OutputTokens are those of each answer, and Step the time of each.
	OutputTokens int
	Step         time.Duration
	// Faults are in the order of their moments.
	Faults []Fault
	// Dup, Hold and Lose are the chances that a message is handed over twice, handed over behind the next ones, and
	// that an ack is lost together with the connection.
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
	// Rate is of an open loop, Concurrency of a closed one: the other is 0.
	Rate, Concurrency int
	// Arrival is "constant" or "poisson".
	Arrival string
	// For is its duration. It ends by Requests if those are given, which take about as long.
	For      time.Duration
	Requests int
	// Warmup are unmeasured requests.
	Warmup int
}

// Kind names a fault.
type Kind string

// Faults of processes, links, the target and the coordinator's disk.
const (
	KillAgent       Kind = "kill-agent"       // SIGKILL; For: until a new process of the name, 0: there is none
	KillCoordinator Kind = "kill-coordinator" // SIGKILL; For: until it is started anew
	StopAgent       Kind = "stop-agent"       // SIGSTOP and, after For, SIGCONT
	Partition       Kind = "partition"        // no bytes either way for For
	Reset           Kind = "reset"            // all connections
	SlowLink        Kind = "slow-link"        // Bytes a second for For
	DelayLink       Kind = "delay-link"       // Delay and Jitter each way for For
	SlowTarget      Kind = "slow-target"      // Delay and Jitter on the way to the endpoint and back
	FullDisk        Kind = "full-disk"        // of the coordinator, for good
)

// Fault is one fault of a script.
type Fault struct {
	// At is its moment, since the run was submitted.
	At   time.Duration
	Kind Kind
	// Agent is its place in Script.Agents.
	Agent int
	// For is how long it lasts.
	For           time.Duration
	Bytes         int
	Delay, Jitter time.Duration
}

// String says what happens in a few words.
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

// OfAgent reports whether the fault strikes one agent.
func (f Fault) OfAgent() bool {
	return f.Kind != KillCoordinator && f.Kind != SlowTarget && f.Kind != FullDisk
}

// silences says whether the fault keeps an agent from being heard, and for how long.
func (f Fault) silences() bool {
	return f.Kind == KillCoordinator || f.Kind == StopAgent || f.Kind == Partition || f.Kind == Reset
}

// AgentName is the name of the agent at a place.
func AgentName(place int) string { return fmt.Sprintf("agent-%d", place) }

// String tells the script in one line.
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

// String tells the load in a few words.
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

// Length is how long the stages last if nothing holds them up.
func (s Script) Length() time.Duration {
	var sum time.Duration
	for _, l := range s.Loads {
		sum += l.For
	}
	return sum
}

// Drain is the plan's drain_timeout: longer than any answer takes.
const Drain = 15 * time.Second

// Bound is how long the run may take from its submission to its end, on a busy machine: its stages, what its faults can
// add to them, what is waited for at their ends, and a minute.
func (s Script) Bound() time.Duration {
	bound := s.Length() + time.Minute
	for _, f := range s.Faults {
		bound += f.For
	}
	return bound + time.Duration(len(s.Loads))*(s.Lease+Drain+10*time.Second)
}

// Plan is the plan as YAML, for an endpoint.
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
