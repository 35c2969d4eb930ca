package results

import (
	"fmt"
	"math"
	"slices"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Repeats are the repeats of a load, taken together: counts, times and tokens are sums, and percentiles are those of
// the merged histograms. Stages that are INVALID or incomplete are left out.
type Repeats struct {
	// Name of the target.
	Target string `json:"target"`
	// Name of the workload.
	Workload string `json:"workload"`
	// Load in words, without the number of the repeat.
	Load string `json:"load"`
	// Indices of the stages that are taken together, in the order in which they ran.
	Stages []uint32 `json:"stages"`
	// Indices of the repeats that are left out.
	LeftOut []uint32 `json:"left_out"`
	// Worst verdict of the stages that are taken together.
	Verdict trust.Verdict `json:"verdict"`
	Outcomes
	// Requests that met the SLO. Null: there is none.
	Goodput *Goodput `json:"goodput"`
	// Sum of the stages' duration_s.
	DurationS *float64 `json:"duration_s"`
	// Completed requests per second of duration_s.
	RequestThroughput *float64 `json:"request_throughput"`
	// Their output tokens per second of duration_s.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	// Their input and output tokens per second of duration_s.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	Latencies
	// How far the stages' own values of a number lie apart.
	Spreads []RepeatSpread `json:"spreads"`
}

// RepeatSpread is how far the values of a number lie apart from repeat to repeat.
type RepeatSpread struct {
	// Path of the number in a stage of results.json.
	Metric string `json:"metric"`
	// Mean of the stages' values.
	Mean float64 `json:"mean"`
	// Sample standard deviation of the stages' values.
	Std float64 `json:"std"`
	// Lower end of the 95 % confidence interval of the mean, by Student's t over the stages.
	Low float64 `json:"low"`
	// Upper end of the interval.
	High float64 `json:"high"`
}

// Stage returns the numbers as those of one stage, for tables. It has no index, and 0 or null for what is not set here:
// a number that is new in tables must be gathered too.
func (r *Repeats) Stage() *StageResult {
	return &StageResult{Target: r.Target, Workload: r.Workload, Load: Load{Words: r.Load + ", " + r.Words()},
		Complete: true, Trust: trust.Trust{Verdict: r.Verdict}, Stream: true,
		Goodput: r.Goodput, DurationS: r.DurationS, Requests: Requests{Outcomes: r.Outcomes},
		RequestThroughput: r.RequestThroughput, OutputTokenThroughput: r.OutputTokenThroughput,
		TotalTokenThroughput: r.TotalTokenThroughput, Latencies: r.Latencies}
}

// spreadOf are the numbers whose spread is told.
var spreadOf = []string{"request_throughput", "output_token_throughput", "ttft_ms.mean", "ttft_ms.p99", "tpot_ms.mean",
	"tpot_ms.p99", "e2e_ms.mean", "e2e_ms.p99"}

// repeatsKey is what repeats have in common.
type repeatsKey struct{ target, workload, load string }

// gatherer gathers the repeats of a run while its stages are merged one by one.
type gatherer struct {
	stages map[repeatsKey]int // number of stages of the run; one: not repeated
	all    []*gathered
}

// gathered are the repeats of a load so far.
type gathered struct {
	key     repeatsKey
	tally   *merge.Tally
	stage   *spatev1.Stage
	of      []StageResult
	leftOut []uint32
}

func newGatherer(records []*spatev1.StageRecord) *gatherer {
	g := &gatherer{stages: make(map[repeatsKey]int)}
	for _, rec := range records {
		if isRepeat(rec.GetStage().GetProbe()) {
			g.stages[keyOfRepeats(rec.GetStage())]++
		}
	}
	return g
}

// isRepeat reports whether a stage is in no series, or in a round of a choice.
func isRepeat(p *spatev1.Probe) bool { return p == nil || p.GetPurpose() == "round" }

func keyOfRepeats(s *spatev1.Stage) repeatsKey {
	words := loadpoint.Words(s.GetLoad())
	return repeatsKey{s.GetTarget().GetName(), s.GetWorkload().GetName(),
		words[:len(words)-len(loadpoint.RepeatWords(s.GetLoad().GetRepeat()))]}
}

// add adds a stage if it is a repeat.
func (g *gatherer) add(merged *merge.Stage, rec *spatev1.StageRecord, r StageResult) {
	key := keyOfRepeats(rec.GetStage())
	if g.stages[key] < 2 || !isRepeat(rec.GetStage().GetProbe()) {
		return
	}
	i := slices.IndexFunc(g.all, func(of *gathered) bool { return of.key == key })
	if i < 0 {
		i = len(g.all)
		g.all = append(g.all, &gathered{key: key, tally: merge.NewTally(), stage: rec.GetStage()})
	}
	of := g.all[i]
	if !r.Complete || r.Trust.Verdict == trust.Invalid || r.DurationS == nil {
		of.leftOut = append(of.leftOut, r.Index)
		return
	}
	merged.Read(rec, func(s *merge.Sums) { of.tally.Include(s.Total) })
	of.of = append(of.of, r)
}

// results returns the repeats of all loads that have two or more that can be taken together.
func (g *gatherer) results() []Repeats {
	all := []Repeats{}
	for _, of := range g.all {
		if len(of.of) > 1 {
			all = append(all, of.result())
		}
	}
	return all
}

func (g *gathered) result() Repeats {
	c, seconds := g.tally.Counters, 0.0
	r := Repeats{Target: g.key.target, Workload: g.key.workload, Load: g.key.load, Stages: []uint32{},
		LeftOut: append([]uint32{}, g.leftOut...), Outcomes: outcomes(c), Latencies: latenciesOf(g.tally),
		Spreads: []RepeatSpread{}}
	for _, s := range g.of {
		r.Stages, r.Verdict = append(r.Stages, s.Index), s.Trust.Verdict.Worse(r.Verdict)
		seconds += *s.DurationS
	}
	r.DurationS = &seconds
	r.RequestThroughput, r.OutputTokenThroughput, r.TotalTokenThroughput = merge.Throughputs(c, &seconds)
	r.Goodput = goodputOf(wholeSLO(g.stage), c, &seconds)
	for _, name := range spreadOf {
		values := lists.Known(g.of, func(s StageResult) *float64 { return s.Number(name) })
		if len(values) < len(g.of) {
			continue
		}
		mean, spread := chance.Mean(values)
		std, margin := spread.Error*math.Sqrt(float64(len(values))), spread.Margin(0.95)
		r.Spreads = append(r.Spreads, RepeatSpread{name, mean, std, mean - margin, mean + margin})
	}
	return r
}

// Words returns what the repeats are: "3 repeats".
func (r *Repeats) Words() string { return fmt.Sprintf("%d repeats", len(r.Stages)) }
