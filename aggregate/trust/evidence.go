package trust

import (
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Evidence is what a verdict is based on. Pointers are nil if the value is not known.
type Evidence struct {
	// Counts are the counters of the stage.
	Counts measure.Counts
	// Summaries summarize the metrics of the stage. Nil: no values.
	Summaries [measure.Count]*histogram.Summary
	// Values are the values of the metrics. Nil: not known, for example while a stage is in progress.
	Values [measure.Count]*histogram.Histogram
	// Errors are the numbers of failures by class.
	Errors map[string]uint64
	// NeverSent is the number of requests that were due and never sent. Nil: not known.
	NeverSent *uint64
	// AfterFailure is how many of them waited for a request of their session that failed. Nil: as NeverSent.
	AfterFailure *uint64
	// Whole: answers were requested in one piece, not as streams.
	Whole bool
	// ExactOutput is true if the server was asked for outputs of exact length. Nil: not known.
	ExactOutput *bool
	// SharedShare is the share of the prompts' tokens that the workload repeats. CachedShare is the share that the
	// server took from its cache.
	SharedShare, CachedShare *float64
	// TemplateTokens is the number of tokens that the server's chat template adds to each prompt. 0: none, or unknown.
	TemplateTokens uint32
	// Uncounted: neither the server's tokenizer nor its usage could count the prompts.
	Uncounted bool
	// CacheBusting: each prompt of the workload is unique from its first token on.
	CacheBusting bool
	// Missing is what a stage that has ended lacks, in words. Nil: the stage is in progress.
	Missing []string
	// AgentLost is true if an agent was lost. Reassigned: the plan's on_agent_loss is reassign.
	AgentLost, Reassigned bool
	// Ended is true if the stage has ended. The fields below are known only then.
	Ended bool
	// Closed is the load of a closed loop that must have all its requests in flight all the time. Nil: another load.
	Closed *Closed
	// Open is the load of an open loop with one rate. Nil: another load.
	Open *Open
	// MaxInFlight is the open loop's limit on its requests in flight. 0: there is none.
	MaxInFlight uint32
	// PeakConcurrency is the largest number of requests in flight.
	PeakConcurrency *uint64
	// PeakTokens is the largest number of output tokens in a second.
	PeakTokens *float64
	// Endpoints is the number of requests that started, by endpoint.
	Endpoints []uint64
	// Seconds are those in which all of the load was up. Nil: not known.
	Seconds []Second
	// Canaries are the answers to canaries, by endpoint. Nil: none are asked.
	Canaries []Canaries
	// Models are the models that answers named, most requests first: for each part of a mixture, or for all requests.
	// Those of which no answer named one are left out.
	Models [][]AnswerModel
	// Starts is, for each agent, the distance of its start from the armed start plus the clocks' uncertainty, in
	// milliseconds.
	Starts []float64
}

// afterFailure returns AfterFailure, 0 if it is not known, and at most NeverSent.
func (e Evidence) afterFailure() uint64 {
	if e.NeverSent == nil || e.AfterFailure == nil {
		return 0
	}
	return min(*e.AfterFailure, *e.NeverSent)
}

// Canaries counts the answers of an endpoint to canaries, and those that differ from its usual answers, under load and
// when it is quiet.
type Canaries struct {
	Endpoint                                     string
	Asked, Differing, QuietAsked, QuietDiffering uint64
	QuietTasks, QuietRight                       uint64
}

// canaries sums up the canaries of all endpoints.
func (e Evidence) canaries() (all Canaries) {
	for _, c := range e.Canaries {
		all.Asked, all.Differing = all.Asked+c.Asked, all.Differing+c.Differing
		all.QuietAsked, all.QuietDiffering = all.QuietAsked+c.QuietAsked, all.QuietDiffering+c.QuietDiffering
		all.QuietTasks, all.QuietRight = all.QuietTasks+c.QuietTasks, all.QuietRight+c.QuietRight
	}
	return all
}

// AnswerModel is a model that answers named.
type AnswerModel struct {
	// Name of the model. "(other)": all beyond those that agents know by name.
	Name string `json:"name"`
	// Completed requests whose answer named it.
	Requests uint64 `json:"requests"`
	// Mean TTFT of these. Null: none was answered by a stream.
	MeanTTFTMs *float64 `json:"mean_ttft_ms"`
	// Mean E2E of these.
	MeanE2EMs float64 `json:"mean_e2e_ms"`
}

// Closed is a closed loop whose slots are never idle, by plan.
type Closed struct {
	// Concurrency is the number of requests in flight that the plan asks for.
	Concurrency uint64
	// Lowered is the share by which ramp-up and drain lower the throughput. 0: they do not, or it is not known.
	Lowered float64
}

// Open is an open loop with one rate.
type Open struct {
	// Asked and Achieved are the rates of the plan and of the stage, in requests per second.
	Asked, Achieved float64
	// Shape is the shape of the gaps between arrivals: 1 for Poisson, 0 if the gaps do not vary. See gaps.Shape.
	Shape float64
	// Flow is that of the second half. Nil: not known.
	Flow *merge.Flow
}

// Metrics that checks use.
const (
	metricSendDelay      = spatev1.Metric_METRIC_SEND_DELAY
	metricReceiveLag     = spatev1.Metric_METRIC_RECEIVE_LAG
	metricTTFT           = spatev1.Metric_METRIC_TTFT
	metricTTFTScheduled  = spatev1.Metric_METRIC_TTFT_SCHEDULED
	metricTPOT           = spatev1.Metric_METRIC_TPOT
	metricITL            = spatev1.Metric_METRIC_ITL
	metricE2E            = spatev1.Metric_METRIC_E2E
	metricE2EScheduled   = spatev1.Metric_METRIC_E2E_SCHEDULED
	metricHeld           = spatev1.Metric_METRIC_HELD
	metricLateEnd        = spatev1.Metric_METRIC_LATE_END
	metricStartGap       = spatev1.Metric_METRIC_START_GAP
	metricTokensPerFrame = spatev1.Metric_METRIC_MILLITOKENS_PER_FRAME
)

// sum returns the sum of the values of a metric.
func sum(s *histogram.Summary) float64 { return s.Mean * float64(s.Count) }

// share returns part / whole, or 0 if whole is 0.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
