package sink

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// fieldsHint is about the number of fields in a row of all metrics, so that rows are allocated once.
const fieldsHint = 192

// Rows returns the window's row and the row of the stage to date, each if it is known.
func (p WindowPoint) Rows() (rows []Row) {
	if p.Measures != nil {
		rows = append(rows, p.windowRow())
	}
	if p.ToDate != nil {
		rows = append(rows, p.ToDateRow())
	}
	return rows
}

// windowRow returns the row of the window alone. Measures must be known.
func (p WindowPoint) windowRow() Row {
	kind := MeasurementWindow
	if p.Measures.Windows > 1 {
		kind = MeasurementMerged
	}
	window := p.Scope.row(kind)
	window.Time = p.Time()
	if p.Measures.Windows > 1 {
		window.count("windows", uint64(p.Measures.Windows))
	}
	window.measures(*p.Measures)
	if p.PeakInFlight != nil {
		window.count("peak_in_flight", uint64(*p.PeakInFlight))
	}
	return window
}

// ToDateRow returns the row of the stage up to the end of the window. ToDate must be known.
func (p WindowPoint) ToDateRow() Row {
	row := p.Scope.row(MeasurementToDate)
	row.Time = p.Time()
	row.Start, row.End = p.StageStart, row.Time.Add(WindowLength)
	row.measures(*p.ToDate)
	row.verdict(p.Verdict)
	return row
}

// Rows returns the result's row.
func (p StagePoint) Rows() []Row {
	row := p.Scope.row(MeasurementStage)
	row.Time = p.StageStart
	if s := p.Whole.Seconds; s != nil {
		row.Start, row.End = p.StageStart, p.StageStart.Add(time.Duration(*s*float64(time.Second)))
	}
	row.boolean("complete", p.Complete)
	row.verdict(p.Verdict)
	row.text("failure", p.Failure)
	row.measures(p.Measures)
	if p.NeverSent != nil {
		row.count("never_sent", *p.NeverSent)
	}
	row.throughput("", p.Whole)
	row.throughput("steady_", p.Steady)
	return []Row{row}
}

// Rows returns the event's row.
func (p EventPoint) Rows() []Row {
	scope := Scope{RunID: p.RunID, Plan: p.Plan}
	row := Row{Measurement: MeasurementEvent, Time: p.Time}
	row.tag("agent", p.Agent)
	row.tag("check", p.Check)
	row.tag("kind", string(p.Kind))
	if p.Stage != nil {
		scope = *p.Stage
		row.tag("load", scope.Load)
	}
	row.tag("plan", p.Plan)
	row.tag("region", p.Region)
	row.tag("run", p.RunID)
	if p.Stage != nil {
		row.tag("stage", strconv.FormatUint(uint64(scope.StageIndex), 10))
	}
	row.tag("target", scope.Target)
	row.tag("workload", scope.Workload)
	row.text("text", cmp.Or(p.Text, string(p.Kind)))
	return []Row{row}
}

// Rows returns the agent's row.
func (p AgentPoint) Rows() []Row {
	row := Row{Measurement: MeasurementAgent, Time: p.Time}
	row.tag("agent", p.Agent)
	row.tag("plan", p.Plan)
	row.tag("region", p.Region)
	row.tag("run", p.RunID)
	if h := p.Heartbeat; h != nil {
		row.float("cpu_cores", h.GetCpuCores())
		row.count("in_flight", uint64(h.GetInFlight()))
		row.count("unacked_snapshots", uint64(h.GetUnackedSnapshots()))
		if h.GetClockUncertaintyNs() > 0 { // otherwise the offset is not known yet
			row.float("clock_offset_ms", float64(h.GetClockOffsetNs())/1e6)
			row.float("clock_uncertainty_ms", float64(h.GetClockUncertaintyNs())/1e6)
		}
	}
	row.optional("silent_s", p.SilentSeconds)
	row.optional("start_error_ms", p.StartErrorMs)
	return []Row{row}
}

// Rows returns the value's row.
func (p ServerPoint) Rows() []Row {
	row := Row{Measurement: MeasurementServer, Time: p.StageStart.Add(time.Duration(p.Window) * WindowLength)}
	row.tag("labels", p.Labels)
	row.tag("load", p.Scope.Load)
	row.tag("metric", p.Metric)
	row.tag("plan", p.Scope.Plan)
	row.tag("run", p.Scope.RunID)
	row.tag("source", p.Source)
	row.tag("stage", strconv.FormatUint(uint64(p.Scope.StageIndex), 10))
	row.tag("target", p.Scope.Target)
	row.tag("workload", p.Scope.Workload)
	row.float("value", p.Value)
	row.optional("per_second", p.PerSecond)
	return []Row{row}
}

// row returns a row of the scope with its tags and its load, which graphs of sweeps need.
func (s Scope) row(measurement string) Row {
	row := Row{Measurement: measurement, Fields: make([]Field, 0, fieldsHint), Tags: make([]Tag, 0, 11),
		API: s.API, Model: s.Model}
	row.tag("agent", s.Agent)
	row.tag("endpoint", s.Endpoint)
	row.tag("load", s.Load)
	row.tag("part", s.Part)
	row.tag("plan", s.Plan)
	row.tag("region", s.Region)
	row.tag("run", s.RunID)
	row.tag("scope", s.scopeTag())
	row.tag("stage", strconv.FormatUint(uint64(s.StageIndex), 10))
	row.tag("target", s.Target)
	row.tag("workload", s.Workload)
	if s.Concurrency > 0 {
		row.count("concurrency", uint64(s.Concurrency))
	}
	if s.Rate > 0 {
		row.float("rate", s.Rate)
	}
	return row
}

// scopeTag returns which part of a stage the scope is about, so that a sum over regions does not also count the whole.
func (s Scope) scopeTag() string {
	switch {
	case s.Agent != "":
		return "agent"
	case s.Endpoint != "":
		return "endpoint"
	case s.Part != "":
		return "part"
	case s.Region != "":
		return "region"
	default:
		return "all"
	}
}

func (r *Row) measures(m Measures) {
	if m.Counters != nil {
		r.counters(m.Counters, m.SLO)
	}
	for _, class := range slices.Sorted(maps.Keys(m.Errors)) {
		r.count("errors_"+class, m.Errors[class])
	}
	for _, d := range m.Distributions {
		r.distribution(d)
	}
}

// counters adds the counters whose values are completely known, and the good requests only if there is an SLO.
func (r *Row) counters(c *spatev1.Counters, slo bool) {
	counts := measure.CountsOf(c)
	for _, counter := range measure.Counters() {
		if counter.KnownIn(&counts) && (slo || counter != measure.Good) {
			r.count(counter.String(), counts[counter])
		}
	}
}

func (r *Row) distribution(d Distribution) {
	r.count(d.Name+"_count", d.Count)
	if d.Count == 0 {
		return
	}
	r.float(d.Name+"_mean", d.Mean)
	r.float(d.Name+"_std", d.Std)
	r.float(d.Name+"_min", d.Min)
	r.float(d.Name+"_max", d.Max)
	r.float(d.Name+"_p50", d.P50)
	r.float(d.Name+"_p90", d.P90)
	r.float(d.Name+"_p95", d.P95)
	r.float(d.Name+"_p99", d.P99)
	r.float(d.Name+"_p99_9", d.P99_9)
	if d.Buckets != nil {
		r.Fields = append(r.Fields, Field{Key: d.Name, Kind: KindBuckets, Buckets: d.Buckets})
	}
}

func (r *Row) throughput(prefix string, t Throughput) {
	r.optional(prefix+"duration_s", t.Seconds)
	r.optional(prefix+"request_throughput", t.Requests)
	r.optional(prefix+"output_token_throughput", t.OutputTokens)
	r.optional(prefix+"total_token_throughput", t.TotalTokens)
}
