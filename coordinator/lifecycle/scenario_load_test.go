package lifecycle_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/series"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// load parses a concurrency, a rate or a template.
func (s *scenario) load(words string, o map[string]string) *spatev1.LoadPoint {
	l := &spatev1.LoadPoint{Requests: 100}
	switch words {
	case "search":
		l.Search = s.search(o)
	case "sweep":
		points, saturation, _ := strings.Cut(o["sweep"], ":")
		l.Sweep = &spatev1.Sweep{Points: uint32(s.number(points)), Saturation: uint32(s.number(saturation))}
	case "frontier":
		from, to, _ := strings.Cut(o["frontier"], ":")
		l.Frontier = &spatev1.Frontier{Concurrency: &spatev1.Bounds{From: s.float(from), To: s.float(to)}, Metric: "e2e",
			Tolerance: 0.1, Points: uint32(s.number(o["points"]))}
	case "choice":
		l.Concurrency = 8
		l.Choose = &spatev1.Choose{Best: "throughput", Tolerance: 0.01, Rounds: uint32(s.number(o["rounds"]))}
	default:
		if rate, open := strings.CutSuffix(words, "rps"); open {
			l.Rate, l.Arrival, l.Requests, l.Duration = s.float(rate), "constant", 0,
				durationpb.New(s.duration(o["duration"]))
			l.MaxInFlight = uint32(s.number(o["held"]))
			return l
		}
		l.Concurrency = uint32(s.number(words))
	}
	return l
}

// search parses a template's search, which limits the p99 TTFT.
func (s *scenario) search(o map[string]string) *spatev1.Search {
	parts := strings.Split(o["search"], ":")
	if len(parts) != 3 {
		s.t.Fatalf("search=%s: want rate or concurrency, and bounds", o["search"])
	}
	bounds := &spatev1.Bounds{From: s.float(parts[1]), To: s.float(parts[2])}
	out := &spatev1.Search{
		Precision: 0.03, Probes: uint32(s.number(o["probes"])), Repeats: max(1, uint32(s.number(o["repeats"]))),
		Keep: &spatev1.Objectives{Latencies: []*spatev1.Limit{
			{Metric: "ttft", Percentile: 99, AtMost: durationpb.New(s.duration(o["keep"]))},
		}},
	}
	if parts[0] == "rate" {
		out.Rate = bounds
	} else {
		out.Concurrency = bounds
	}
	return out
}

// change applies the options to a stage.
func (s *scenario) change(st *spatev1.Stage, o map[string]string) {
	if size := s.number(o["dataset"]); size > 0 {
		st.Dataset = &spatev1.Dataset{Size: size << 20}
	}
	st.OnAgentLoss, st.FailFast = o["loss"], o["failfast"] != ""
	for part := range strings.SplitSeq(o["regions"], ",") {
		if region, share, ok := strings.Cut(part, ":"); ok {
			if st.Regions == nil {
				st.Regions = map[string]float64{}
			}
			st.Regions[region] = s.float(share)
		}
	}
	if o["pool"] != "" || o["count"] != "" {
		st.Agents = &spatev1.AgentSelector{Count: uint32(s.number(o["count"]))}
		if o["pool"] != "" {
			st.Agents.Labels = map[string]string{"pool": o["pool"]}
		}
	}
	if o["pause"] != "" {
		st.Pause = durationpb.New(s.duration(o["pause"]))
	}
	if o["stagger"] != "" {
		st.Load.Stagger = durationpb.New(s.duration(o["stagger"]))
	}
	if o["steady"] != "" {
		st.Load.WarmupUntilSteady = durationpb.New(s.duration(o["steady"]))
	}
	if rule := strings.Split(o["abort"], ":"); len(rule) == 3 {
		st.Load.Abort = &spatev1.Abort{ErrorShare: new(s.float(rule[0])), AfterRequests: s.number(rule[1])}
		if rule[2] != "" {
			st.Load.Abort.Duration = durationpb.New(s.duration(rule[2]))
		}
	}
	if percentile, within, ok := strings.Cut(o["until"], ":"); ok {
		st.Load.Until = &spatev1.Precision{Metric: "ttft", Percentile: s.float(percentile), Within: s.float(within),
			Confidence: 0.95}
	}
}

// outcome returns what a closed stage measured.
func (s *scenario) outcome(o map[string]string) series.Outcome {
	out := series.Outcome{Completed: 100, Cancelled: s.number(o["cut"]), Failed: s.number(o["failed"]),
		Fault: o["fault"], Target: s.records[s.stage].GetStage().GetTarget().GetName()}
	if o["completed"] != "" {
		out.Completed = s.number(o["completed"])
	}
	if o["p99"] != "" {
		d := s.duration(o["p99"])
		out.Latencies = []*time.Duration{&d}
	}
	if o["fastest"] != "" {
		d := s.duration(o["fastest"])
		out.Fastest = []*time.Duration{&d}
	}
	if o["throughput"] != "" {
		v := s.float(o["throughput"])
		out.Throughput = &v
	}
	return out
}

// observe shows the machine what was merged.
func (s *scenario) observe(_ []string, o map[string]string) {
	v := lifecycle.View{StageIndex: s.stage, Ended: s.number(o["ended"]), Failed: s.number(o["failed"])}
	for part := range strings.SplitSeq(o["tokens"], ",") {
		count, times, many := strings.Cut(part, "x")
		n := uint64(1)
		if many {
			n = s.number(times)
		}
		for range n {
			v.Frames = append(v.Frames, s.number(count))
		}
	}
	if p := strings.Split(o["ttft"], ":"); len(p) == 4 {
		v.Percentile = &lifecycle.Interval{Low: s.duration(p[0]), Value: s.duration(p[1]), High: s.duration(p[2]),
			Count: s.number(p[3])}
	}
	s.run.Observe(s.at, v)
}

func (s *scenario) float(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// found describes what a series found.
func found(r *spatev1.SeriesRecord) string {
	out := fmt.Sprintf("%s %d of %s, %s:", loadpoint.Kind(r.GetLoad()), r.GetSeries(), r.GetTarget(), r.GetWorkload())
	if r.GetLoad().GetFrontier() != nil {
		for _, p := range r.GetPoints() {
			out += fmt.Sprintf(" %v in stage %d %s,", p.GetLoad(), p.GetStageIndex(), p.GetLeftOut())
		}
	}
	for _, v := range r.GetRivals() {
		out += fmt.Sprintf(" %s %d %q,", v.GetTarget(), v.GetStages(), v.GetDropped())
	}
	for _, l := range r.GetLimits() {
		if l.Kept != nil {
			out += fmt.Sprintf(" kept %v in stage %d,", l.GetKept(), l.GetStageIndex())
		}
		if l.Broke != nil {
			out += fmt.Sprintf(" broke %v,", l.GetBroke())
		}
	}
	if r.MeanThroughput != nil {
		out += fmt.Sprintf(" throughput %.3f +- %.3f,", r.GetMeanThroughput(), r.GetThroughputMargin())
	}
	out += fmt.Sprintf(" %d stages, converged=%v complete=%v ", r.GetStages(), r.GetConverged(), r.GetComplete())
	return strings.TrimRight(out+r.GetEnd()+"; "+r.GetReason(), "; ")
}
