package sink

import (
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// WindowLength is the length of a window.
const WindowLength = time.Second

// Scope says what part of which stage a point is about. It names the point's series: equal scopes, equal series.
type Scope struct {
	// RunID is the run's id.
	RunID string
	// Plan is the plan's name.
	Plan string
	// StageIndex is the stage's place in the run, from 0.
	StageIndex uint32
	// Target and Workload are their names in the plan.
	Target, Workload string
	// Load is the load point in words: "concurrency 8", "2 req/s poisson".
	Load string
	// Concurrency is the load point of a closed loop, 0 for an open loop.
	Concurrency uint32
	// Rate is the load point of an open loop in requests per second, 0 for a closed loop.
	Rate float64
	// Region limits the point to the agents of a region, or says where the Agent is. Empty: all regions.
	Region string
	// Agent limits the point to one agent. Empty: all agents.
	Agent string
	// Endpoint limits the point to one endpoint, by its base URL. Empty: all endpoints.
	Endpoint string
	// Observer says that the point is about the observer of the Region, which no other point counts. Its rows have
	// measurements of their own.
	Observer bool
}

// WindowPoint is one window of a stage, and the stage up to the window's end.
type WindowPoint struct {
	// Scope says what it is about.
	Scope Scope
	// StageStart is the stage's start by the coordinator's wall clock, as the ledger has it: never the time of the
	// call.
	StageStart time.Time
	// Window is the number of the window: whole seconds since the stage's start.
	Window uint32
	// Measures are those of the window alone.
	Measures Measures
	// ToDate are those of the stage's windows up to this one, merged. Nil: not known.
	ToDate *Measures
	// PeakInFlight is the most requests in flight at once during the window. Nil: not known.
	PeakInFlight *uint32
	// Verdict is how far what came to date can be believed: 0 valid, 1 suspect, 2 invalid. Nil: it was not judged.
	Verdict *uint64
}

// Time is the point's absolute time: the stage's start and the window's offset from it.
func (p WindowPoint) Time() time.Time {
	return p.StageStart.Add(time.Duration(p.Window) * WindowLength)
}

// StagePoint is the result of a stage. Its absolute time is the stage's start.
type StagePoint struct {
	// Scope says what it is about.
	Scope Scope
	// StageStart is the stage's start by the coordinator's wall clock, as the ledger has it.
	StageStart time.Time
	// Complete says that nothing is missing from the result.
	Complete bool
	// Verdict is how far the result can be believed: 0 valid, 1 suspect, 2 invalid. Nil: it was not judged.
	Verdict *uint64
	// Failure says why the stage ended early. Empty: it did not.
	Failure string
	// Measures are those of the whole stage.
	Measures Measures
	// NeverSent are the requests that the stage owed and did not send. Nil: not known.
	NeverSent *uint64
	// Whole is the throughput from the first start to the last end.
	Whole Throughput
	// Steady is the throughput with ramp-up and drain cut off.
	Steady Throughput
}

// Throughput is what came through in a time. Nil: not known.
type Throughput struct {
	// Seconds is the length of that time.
	Seconds *float64
	// Requests are completed requests per second.
	Requests *float64
	// OutputTokens are output tokens per second.
	OutputTokens *float64
	// TotalTokens are input and output tokens per second.
	TotalTokens *float64
}

// Measures are counts and distributions of one time span.
type Measures struct {
	// Windows is how many windows of a second the counts of a window may be of: above 1 if an agent whose coordinator
	// was gone has merged them. Such a window's row has a measurement of its own, so that it is no spike among the
	// others. 0 and 1: one.
	Windows uint32
	// Counters are the events counted. Nil: not known.
	Counters *spatev1.Counters
	// SLO says that the stage has one: then the counter of good requests means something.
	SLO bool
	// Errors are failures by class, under the names of results.json. Classes without any may be left out.
	Errors map[string]uint64
	// Distributions are the values recorded. Metrics without any may be left out.
	Distributions []Distribution
}

// Distribution sums up a merged histogram. A number that is not known is NaN; with a count of 0 none is.
type Distribution struct {
	// Name is the metric's name in results.json, which ends in the unit of the values: "ttft_ms", "osl_tokens".
	Name string
	// Count is the number of values.
	Count uint64
	// Mean and Std are exact.
	Mean, Std float64
	// Min and Max are exact.
	Min, Max float64
	// P50 to P99_9 are percentiles of the merged histogram.
	P50, P90, P95, P99, P99_9 float64
}

// EventPoint is something that happened to a run.
type EventPoint struct {
	// RunID is the run's id.
	RunID string
	// Plan is the plan's name.
	Plan string
	// Time is when, as the ledger has it where the ledger does.
	Time time.Time
	// Kind says what happened.
	Kind EventKind
	// Stage says to which stage. Nil: to the run.
	Stage *Scope
	// Agent says to which agent. Empty: to no single one.
	Agent string
	// Region is the agent's. Empty: it said none, or there is no agent.
	Region string
	// Text says it to people.
	Text string
}

// EventKind is a kind of event.
type EventKind string

// Kinds of events.
const (
	RunBegan    EventKind = "run_began"
	RunEnded    EventKind = "run_ended"
	StageBegan  EventKind = "stage_began"
	StageEnded  EventKind = "stage_ended"
	AgentLost   EventKind = "agent_lost"
	AgentJoined EventKind = "agent_joined"
	Warning     EventKind = "warning"
	// ErrorBurst is a window with many failures after a calm: docs/influxdb.md says how many.
	ErrorBurst EventKind = "error_burst"
)

// AgentPoint is how an agent does, by its last heartbeat. What is nil is not known.
type AgentPoint struct {
	// RunID is the id of the run that goes on.
	RunID string
	// Plan is the plan's name.
	Plan string
	// Agent is its name.
	Agent string
	// Region is the agent's. Empty: it said none.
	Region string
	// Time is when it was heard last, or asked about, by the coordinator's wall clock; for the StartErrorMs the stage's
	// start.
	Time time.Time
	// Heartbeat is the last one.
	Heartbeat *spatev1.Heartbeat
	// SilentSeconds is the time since anything was heard of it.
	SilentSeconds *float64
	// StartErrorMs is the start of its load in a stage minus the start that was armed.
	StartErrorMs *float64
}

// ServerPoint is what a server told of itself in one window of a stage: one value of one series.
type ServerPoint struct {
	// Scope says of which stage. Its region, agent and endpoint are of no meaning.
	Scope Scope
	// StageStart is the stage's start by the coordinator's wall clock, as the ledger has it.
	StageStart time.Time
	// Window is the number of the window at whose begin the server was asked.
	Window uint32
	// Source is the address at which it was asked, without a password.
	Source string
	// Metric is the metric's name.
	Metric string
	// Labels of the series as in Prometheus' text form, without the braces. Empty: it has none.
	Labels string
	// Value as the server told it.
	Value float64
	// PerSecond is how fast a counter grew since the value before. Nil: it is no counter, or there is none before.
	PerSecond *float64
}

// AgentEvent is an agent's loss, or its joining, as an event of a stage. stage may be nil.
func AgentEvent(run EventPoint, stage *Scope, e *spatev1.AgentChanged) EventPoint {
	p := run
	p.Kind, p.Stage, p.Agent, p.Region = AgentLost, stage, e.GetAgent().GetName(), e.GetAgent().GetRegion()
	if e.GetJoined() {
		p.Kind = AgentJoined
	}
	p.Text = e.GetReason()
	switch {
	case p.Text == "":
		p.Text = e.GetConsequence()
	case e.GetConsequence() != "":
		p.Text += ": " + e.GetConsequence()
	}
	return p
}
