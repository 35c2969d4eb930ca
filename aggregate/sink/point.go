package sink

import (
	"math"
	"time"

	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// WindowLength is the length of a window.
const WindowLength = time.Second

// Scope is the part of a stage that a point is about. It identifies the point's series: equal scopes, equal series.
type Scope struct {
	// RunID is the run's ID.
	RunID string
	// Plan is the plan's name.
	Plan string
	// StageIndex is the stage's index in the run, from 0.
	StageIndex uint32
	// Target and Workload are their names in the plan.
	Target, Workload string
	// API is what the target speaks, Model its model. Few databases have them.
	API, Model string
	// Load is the stage's load in words: "concurrency 8", "2 req/s poisson".
	Load string
	// Concurrency is the concurrency of a closed loop, 0 for an open loop.
	Concurrency uint32
	// Rate is the rate of an open loop in requests per second, 0 for a closed loop.
	Rate float64
	// Region limits the point to the agents of a region. If Agent is set, Region is the agent's region. Empty: all
	// regions.
	Region string
	// Agent limits the point to one agent. Empty: all agents.
	Agent string
	// Endpoint limits the point to one endpoint, by its base URL. Empty: all endpoints.
	Endpoint string
	// Part limits the point to one part of the mixture, by its name. Empty: all requests.
	Part string
}

// WindowPoint is one window of a stage, and the stage up to the window's end.
type WindowPoint struct {
	// Scope is what the point is about.
	Scope Scope
	// StageStart is the stage's start by the coordinator's wall clock, as in the ledger. It is never the time of the
	// call.
	StageStart time.Time
	// Window is the number of the window: whole seconds since the stage's start.
	Window uint32
	// Measures are the numbers of the window alone. Nil: there are none.
	Measures *Measures
	// ToDate are the numbers of the stage's windows up to and including this one, merged. Nil: not known.
	ToDate *Measures
	// PeakInFlight is the largest number of requests in flight during the window. Nil: not known.
	PeakInFlight *uint32
	// Verdict reports whether the numbers to date can be believed: 0 valid, 1 suspect, 2 invalid. Nil: it was not
	// judged.
	Verdict *uint64
}

// Time returns the point's absolute time: the stage's start plus the window's offset.
func (p WindowPoint) Time() time.Time {
	return p.StageStart.Add(time.Duration(p.Window) * WindowLength)
}

// StagePoint is the result of a stage. Its absolute time is the stage's start.
type StagePoint struct {
	// Scope is what the point is about.
	Scope Scope
	// StageStart is the stage's start by the coordinator's wall clock, as in the ledger.
	StageStart time.Time
	// Complete is true if nothing is missing from the result.
	Complete bool
	// Verdict reports whether the result can be believed: 0 valid, 1 suspect, 2 invalid. Nil: it was not judged.
	Verdict *uint64
	// Failure is why the stage ended early. Empty: it did not.
	Failure string
	// Measures are the numbers of the whole stage.
	Measures Measures
	// NeverSent is the number of requests that were due and never sent. Nil: not known.
	NeverSent *uint64
	// Whole is the throughput from the first start to the last end.
	Whole Throughput
	// Steady is the throughput without ramp-up and drain.
	Steady Throughput
}

// Throughput holds rates over a time. Nil: not known.
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
	// Windows is the number of windows of 1 s that the counts of a window may cover. It is above 1 if an agent merged
	// windows while the coordinator was unreachable. The row of such a window has its own measurement, so that it is
	// not a spike among the others. 0 means 1.
	Windows uint32
	// Counters are the counts of events. Nil: not known.
	Counters *spatev1.Counters
	// SLO is true if the stage has an SLO, so that the counter of good requests has a meaning.
	SLO bool
	// Errors are the numbers of failures by class, under the names of results.json. Classes without failures may be
	// absent.
	Errors map[string]uint64
	// Distributions summarize the recorded values. Metrics without values may be absent.
	Distributions []Distribution
}

// Distribution summarizes a merged histogram. A number that is not known is NaN. If Count is 0, no other number is
// known.
type Distribution struct {
	// Name is the metric's name in results.json, which ends in the unit of the values: "ttft_ms", "osl_tokens".
	Name string
	histogram.Summary
	// Buckets are the values in exponential buckets. Nil: not known.
	Buckets *histogram.Exponential
}

// EventPoint is something that happened to a run.
type EventPoint struct {
	// RunID is the run's ID.
	RunID string
	// Plan is the plan's name.
	Plan string
	// Time is when it happened: as in the ledger, if the ledger has the event.
	Time time.Time
	// Kind is what happened.
	Kind EventKind
	// Stage is the stage that the event is about. Nil: the run as a whole.
	Stage *Scope
	// Agent is the agent that the event is about. Empty: no single agent.
	Agent string
	// Region is the region of Agent. Empty: the agent has none, or Agent is empty.
	Region string
	// Check is the name of the check that failed. Empty: the event is not a Doubt.
	Check string
	// Text describes the event for people.
	Text string
}

// EventKind is a kind of event.
type EventKind string

// Kinds of events.
const (
	RunStarted   EventKind = "run_began"
	RunEnded     EventKind = "run_ended"
	StageStarted EventKind = "stage_began"
	StageEnded   EventKind = "stage_ended"
	AgentLost    EventKind = "agent_lost"
	AgentJoined  EventKind = "agent_joined"
	Warning      EventKind = "warning"
	// ErrorBurst is a window with many failures after windows with few: docs/influxdb.md has the limits.
	ErrorBurst EventKind = "error_burst"
	// Doubt is a check that a stage's result did not pass.
	Doubt EventKind = "doubt"
)

// AgentPoint is the state of an agent, by its last heartbeat. A nil field is not known.
type AgentPoint struct {
	// RunID is the ID of the run in progress.
	RunID string
	// Plan is the plan's name.
	Plan string
	// Agent is the agent's name.
	Agent string
	// Region is the agent's region. Empty: the agent has none.
	Region string
	// Time is when the agent was last heard of, or when its state was read, by the coordinator's wall clock. For
	// StartErrorMs it is the stage's start.
	Time time.Time
	// Heartbeat is the agent's last heartbeat.
	Heartbeat *spatev1.Heartbeat
	// SilentSeconds is the time since the agent was last heard of.
	SilentSeconds *float64
	// StartErrorMs is the actual start of the agent's load in a stage minus the armed start, in milliseconds.
	StartErrorMs *float64
}

// ServerPoint is the value of one series of a server's metrics in one window of a stage.
type ServerPoint struct {
	// Scope identifies the stage. Its Region, Agent and Endpoint have no meaning.
	Scope Scope
	// StageStart is the stage's start by the coordinator's wall clock, as in the ledger.
	StageStart time.Time
	// Window is the number of the window at whose start the metrics were read.
	Window uint32
	// Source is the URL that the metrics were read from, without a password.
	Source string
	// Metric is the metric's name.
	Metric string
	// Labels of the series as in Prometheus' text format, without the braces. Empty: the series has none.
	Labels string
	// Value as the server reported it.
	Value float64
	// PerSecond is how fast a counter grew since the value before. Nil: the metric is not a counter, or there is no
	// value before.
	PerSecond *float64
}

// AgentEvent returns the event of an agent that was lost or has joined, with the run and time of run. stage may be nil.
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

// Measurements of rows.
const (
	// MeasurementWindow has single windows of a stage. Never average their percentiles.
	MeasurementWindow = "spate_window"
	// MeasurementToDate has a stage up to the end of each window.
	MeasurementToDate = "spate_to_date"
	// MeasurementStage has the result of a stage.
	MeasurementStage = "spate_stage"
	// MeasurementMerged has windows of a stage that an agent merged, at the last of them. Their counts are of more than
	// a second.
	MeasurementMerged = "spate_merged_windows"
	// MeasurementAgent has the state of agents during a run.
	MeasurementAgent = "spate_agent"
	// MeasurementServer has server metrics.
	MeasurementServer = "spate_server"
	// MeasurementEvent has the events of a run.
	MeasurementEvent = "spate_event"
)

// Row is a point in the form of a time series database. Measurement, tags and time identify it: a row replaces an
// earlier one with the same identity.
type Row struct {
	// Measurement is the kind of the row.
	Measurement string
	// Tags identify the series. They are sorted by key, and none is empty.
	Tags []Tag
	// Fields are the values that are known, and no others.
	Fields []Field
	// Time is absolute and depends on the run alone.
	Time time.Time
	// Start and End are the time that the row's counts and distributions cover, for databases of cumulative values.
	// Zero: the row has none.
	Start, End time.Time
	// API is what the target of the row speaks, Model its model. They are not part of its identity. Empty: not known.
	API, Model string
}

// Tag is one part of a series' identity.
type Tag struct {
	// Key is the name of the tag.
	Key string
	// Value is not empty.
	Value string
}

// Kind is the type of a field's value.
type Kind uint8

// Kinds of values. There is no unsigned kind because InfluxDB 1 refuses it.
const (
	KindInt Kind = iota + 1
	KindFloat
	KindBool
	KindText
	// KindBuckets is a whole distribution. Databases that cannot store it leave it out.
	KindBuckets
)

// Field is one value of a row.
type Field struct {
	// Key is the name of the field.
	Key string
	// Kind says which of the other fields holds the value.
	Kind Kind
	// Int is the value for KindInt. For KindBool, 1 means true.
	Int int64
	// Float is the value for KindFloat. It is finite.
	Float float64
	// Text is the value for KindText. It is not empty.
	Text string
	// Buckets is the value for KindBuckets. It is in base units, see Name.
	Buckets *histogram.Exponential
}

// tag adds a tag unless it is empty. Call it in the order of the keys.
func (r *Row) tag(key, value string) {
	if value != "" {
		r.Tags = append(r.Tags, Tag{key, value})
	}
}

// count adds a count. It skips a count above 2^63-1, which no real count reaches.
func (r *Row) count(key string, value uint64) {
	if value <= math.MaxInt64 {
		r.Fields = append(r.Fields, Field{Key: key, Kind: KindInt, Int: int64(value)})
	}
}

// float adds a number if it is known.
func (r *Row) float(key string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		r.Fields = append(r.Fields, Field{Key: key, Kind: KindFloat, Float: value})
	}
}

// optional adds a number if it is known.
func (r *Row) optional(key string, value *float64) {
	if value != nil {
		r.float(key, *value)
	}
}

// boolean adds a bool.
func (r *Row) boolean(key string, value bool) {
	field := Field{Key: key, Kind: KindBool}
	if value {
		field.Int = 1
	}
	r.Fields = append(r.Fields, field)
}

// verdict adds the verdict on the numbers, if they were judged.
func (r *Row) verdict(number *uint64) {
	if number != nil {
		r.count("verdict", *number)
	}
}

// text adds a text unless it is empty.
func (r *Row) text(key, value string) {
	if value != "" {
		r.Fields = append(r.Fields, Field{Key: key, Kind: KindText, Text: value})
	}
}
