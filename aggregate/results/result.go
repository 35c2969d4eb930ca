// Package results makes results from merged measurements: of a stage (OfStage), and of a run from its ledger (Of). It
// names what is missing in a result. Its types are the content of results.json.
//
// The package does not use the network, read a clock, or draw conclusions about the server. Package trust judges
// whether the numbers can be believed; package report makes files from results.
package results

import (
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/servermetrics"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Result is the result of a run: the content of results.json. A value that is not known is null.
type Result struct {
	// The run as a whole.
	Run RunResult `json:"run"`
	// The answer in words. Null: the file was made by a version without it.
	Headline *Headline `json:"headline"`
	// Thresholds of the plan and of the command, and whether they passed.
	Thresholds []Threshold `json:"thresholds"`
	// Stages of the run by target, in the plan's order, and those of a target in the order in which they ran; indices
	// count them in the order in which all ran. Stages that never started are not listed.
	Stages []StageResult `json:"stages"`
	// Repeats of loads, taken together, in the same order. Empty: no load was repeated.
	Repeats []Repeats `json:"repeats"`
}

// Threshold is a condition on the numbers of stages, and its outcome.
type Threshold struct {
	// The condition, such as ttft_ms.p99 < 500.
	That string `json:"that"`
	// Where it comes from: "plan" or "flag".
	From string `json:"from"`
	// Name of the target that it is for. Null: all.
	Target *string `json:"target"`
	// Name of the workload that it is for. Null: all.
	Workload *string `json:"workload"`
	// Load that it is for, in words. Null: all.
	Load *string `json:"load"`
	// Name of the part of a mixture that it is for. Null: the whole stage.
	Part *string `json:"part"`
	// True if all stages that it is for passed, and there is at least one.
	Passed bool `json:"passed"`
	// Why it was not compared with any stage. Null: it was.
	Reason *string `json:"reason"`
	// Outcome for each stage that it is for. Of the probes of a search, only the stage at the load that was found is
	// one.
	Stages []ThresholdStage `json:"stages"`
}

// ThresholdStage is the outcome of a threshold for one stage.
type ThresholdStage struct {
	// Index of the stage.
	Index uint32 `json:"index"`
	// Name of the target.
	Target string `json:"target"`
	// Name of the workload.
	Workload string `json:"workload"`
	// Load in words.
	Load string `json:"load"`
	// Left side of the condition. Null: it is not known, or not a number.
	Value *float64 `json:"value"`
	// Right side of the condition. Null: it is not known, or not a number.
	Limit *float64 `json:"limit"`
	// True if the comparison holds and the stage is complete and not INVALID.
	Passed bool `json:"passed"`
	// The value, or why the stage did not pass, in words.
	Words string `json:"words"`
}

// RunResult identifies the run and reports whether anything is missing.
type RunResult struct {
	// ID of the run.
	ID string `json:"id"`
	// Name of the plan.
	Plan *string `json:"plan"`
	// What the plan says about itself. Null: nothing.
	Description *string `json:"description"`
	// Seed of the plan.
	Seed *uint64 `json:"seed"`
	// Start of the run by the coordinator's wall clock, RFC 3339 in UTC.
	BeginTime *string `json:"begin_time"`
	// End of the run by the coordinator's wall clock. Null: the run did not end.
	EndTime *string `json:"end_time"`
	// How the run ended: "done", "stopped" or "failed". Null: the run did not end.
	Outcome *string `json:"outcome"`
	// Why the run did not complete. Null: it did, or no reason is known.
	Reason *string `json:"reason"`
	// Version of the coordinator's program.
	Version string `json:"version"`
	// Version of what the numbers mean: measure.Definitions.
	Definitions uint32 `json:"definitions"`
	// Form of the request rows beside this file: "jsonl" or "parquet". Null: no rows were kept.
	Records *string `json:"records"`
	// Number of stages of the plan, including the stages that its sweeps, searches and frontiers turned out to need. An
	// upper bound if the run did not end.
	StagesPlanned uint32 `json:"stages_planned"`
	// Factor by which a simulated run shortened the times of its plan; 1: not shortened. Null: the run is not a
	// simulation.
	TimeCompression *float64 `json:"time_compression"`
	// What the searches, frontiers and sweeps of the run found, in their order.
	Series []SeriesResult `json:"series"`
	// How often the coordinator was restarted during the run, or the run was resumed.
	Restarts uint32 `json:"restarts"`
	// Agents that took part in any stage, sorted by name.
	Agents []RunAgent `json:"agents"`
	// Targets of the plan, in its order. Empty: the plan cannot be read.
	Targets []RunTarget `json:"targets"`
	// True if nothing is missing: every planned stage is present and complete.
	Complete bool `json:"complete"`
	// What is missing, in words. Empty if the run is complete.
	Missing []string `json:"missing"`
	// Verdict on the measurements: the worst verdict of any stage. In place of the stages of a search, a frontier or a
	// sweep the verdict on what it found counts. Null: no stage was judged.
	Verdict *trust.Verdict `json:"verdict"`
}

// SeriesResult is what a search, a frontier or a sweep found.
type SeriesResult struct {
	// Number of the series in the run. Its stages have the same number in probe.series.
	Series uint32 `json:"series"`
	// What it is: "search" for the highest load at which the target meets the objectives, "frontier" of throughput
	// against latency from the lowest load to a saturated server, "sweep" of rates, or "choice" of the best target.
	Kind string `json:"kind"`
	// Name of the target. Of a choice the best one. Empty: there is none.
	Target string `json:"target"`
	// Name of the workload.
	Workload string `json:"workload"`
	// What was varied: "rate" in requests per second, or "concurrency".
	Unit string `json:"unit"`
	// Latency of a frontier's points, as "mean E2E" or "p99 TTFT". Empty: another kind.
	Latency string `json:"latency"`
	// What a choice is by: "throughput", "output_throughput", "goodput" or a latency as above. Empty: another kind.
	Best string `json:"best"`
	// Targets of a choice: the best one, those that were left, those that were dropped, the last one first.
	Rivals []Rival `json:"rivals"`
	// Objectives of which the highest load is in limits, in words. Empty: there are none.
	Objectives []string `json:"objectives"`
	// Highest loads that met the objectives, of the whole and then of each part of a mixture.
	Limits []LoadLimit `json:"limits"`
	// Stages that are used: of a search those that decided, of a frontier all, by load.
	Points []SeriesPoint `json:"points"`
	// Index of the stage with the highest throughput divided by its latency, of those on a frontier's curve. Null: the
	// curve has no points.
	Knee *uint32 `json:"knee"`
	// Index of the stage with the highest goodput. Null: no request met the SLO, or there is none.
	HighestGoodput *uint32 `json:"highest_goodput"`
	// Mean request throughput of the stages at the load that a search found. Null: fewer than two stages ran there.
	MeanThroughput *float64 `json:"mean_throughput"`
	// Half the width of the 95 % confidence interval of mean_throughput. Null: fewer than two stages ran there.
	ThroughputMargin *float64 `json:"throughput_margin"`
	// Number of stages that were run.
	Stages uint32 `json:"stages"`
	// Number of a search's stages that say otherwise: they met the objectives above kept, or did not below broke.
	Overruled uint32 `json:"overruled"`
	// Percentiles of the objectives for which a stage has too few values, in words. Null: there are none.
	Caution *string `json:"caution"`
	// Worst verdict on the measurements that the answers stand on: those at kept and broke, or on the curve. Null: none
	// of them was judged.
	Verdict *trust.Verdict `json:"verdict"`
	// Why the verdict of a search is not VALID, in words, with the load. Null: it is VALID.
	Doubts *string `json:"doubts"`
	// Why no higher load was measured, or no lower one. Null: a load was too high, or the series ended early.
	End *string `json:"end"`
	// Share within which the answers are known if converged is true.
	Tolerance float64 `json:"tolerance"`
	// True if they are known within the tolerance, or only one end of a limit exists, and each was confirmed.
	Converged bool `json:"converged"`
	// Why they are not. Null: they are.
	Reason *string `json:"reason"`
	// All of this in one sentence.
	Sentence string `json:"sentence"`
}

// Rival is a target of a choice.
type Rival struct {
	// Name of the target.
	Target string `json:"target"`
	// Its stages that count, one for each round.
	Stages []uint32 `json:"stages"`
	// Change against the best target over the rounds of both (0.03: 3 % more). Null: not known, or it is the best.
	Change *float64 `json:"change"`
	// Low end of the 95 % interval of the change. Null: as change.
	Low *float64 `json:"low"`
	// High end of the 95 % interval of the change. Null: as change.
	High *float64 `json:"high"`
	// Why it was dropped. Null: it was not.
	Reason *string `json:"reason"`
}

// SeriesPoint is one stage of a search or a frontier.
type SeriesPoint struct {
	// Index of the stage.
	Stage uint32 `json:"stage"`
	// Load: requests per second, or concurrency.
	Load float64 `json:"load"`
	// Which objective of a search was not met, with the measured value. Null: all were.
	Reason *string `json:"reason"`
	// Why the stage is not a point of a frontier's curve. Null: it is.
	LeftOut *string `json:"left_out"`
	// True of a point of a frontier's curve if no other has as much throughput at a lower latency, or more at the same.
	Pareto bool `json:"pareto"`
	// Completed requests per second: of the stage's steady part, which must have at least 5 s if the load is a
	// rate, else of the whole stage.
	RequestThroughput *float64 `json:"request_throughput"`
	// Output tokens per second of the same time. Null: not known, or answers have no tokens.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	// The latency of a frontier, in milliseconds. Null: not known.
	LatencyMs *float64 `json:"latency_ms"`
	// request_throughput times the share of completed requests that met the SLO. Null: there is no SLO.
	Goodput *float64 `json:"goodput"`
	// Requests that met the SLO, as a share of the completed and failed ones. Null: there is no SLO, or none ended.
	GoodShare *float64 `json:"good_share"`
	// Verdict on the stage's measurement. Null: it was not judged.
	Verdict *trust.Verdict `json:"verdict"`
}

// LoadLimit is the highest load that met objectives.
type LoadLimit struct {
	// Name of the part of a mixture. Null: the whole.
	Part *string `json:"part"`
	// Highest load that met all objectives, below the one in broke. Null: no load did.
	Kept *float64 `json:"kept"`
	// Lowest load that did not meet all objectives. Null: no such load was found.
	Broke *float64 `json:"broke"`
	// Which objective was not met at the load in broke, with the measured value. Null: there is none.
	Reason *string `json:"reason"`
	// Index of the stage that ran the load in kept. Null: kept is null.
	Stage *uint32 `json:"stage"`
}

// RunAgent describes an agent.
type RunAgent struct {
	// Name of the agent.
	Name string `json:"name"`
	// Region of the agent. Empty: the agent has none.
	Region string `json:"region"`
	// Host name.
	Host string `json:"host"`
	// Version of the agent's program.
	Version string `json:"version"`
	// Cores that the agent may use. Null: not known.
	Cores *uint32 `json:"cores"`
	// Labels of the agent, without its region. Empty: it has none.
	Labels map[string]string `json:"labels"`
}

// RunTarget is what the plan says about a target that results are compared by.
type RunTarget struct {
	// Name of the target.
	Name string `json:"name"`
	// Number of GPUs of all endpoints together. Null: not known.
	GPUs *uint32 `json:"gpus"`
	// What the target runs on, in words. Null: not known.
	Hardware *string `json:"hardware"`
	// What the target costs for an hour, in dollars. Null: not known.
	CostPerHour *float64 `json:"cost_per_hour"`
	// What else the plan says about the target.
	Labels map[string]string `json:"labels"`
	// Where reports link traces to, with {trace_id}. Null: nowhere.
	TraceURL *string `json:"trace_url"`
	// True of the target that the others are compared with: the one that the plan marks, or the first.
	Baseline bool `json:"baseline"`
}

// StageResult is the result of one stage. Requests of warm-up and cool-down are in no number, except in those that name
// them.
type StageResult struct {
	// Index of the stage in the run, from 0.
	Index uint32 `json:"index"`
	// Name of the target.
	Target string `json:"target"`
	// Name of the workload.
	Workload string `json:"workload"`
	// Load of the stage: when its requests start, and when it ends.
	Load Load `json:"load"`
	// Place of the stage in a sweep, a search or a frontier. Null: the stage is in none.
	Probe *Probe `json:"probe"`
	// Model that the requests name.
	Model string `json:"model"`
	// API used, as plans name it.
	API string `json:"api"`
	// Whether answers were requested as streams. If not, TTFT, TPOT and ITL are null.
	Stream bool `json:"stream"`
	// Seed of the stage. Equal seeds give equal requests.
	Seed uint64 `json:"seed"`
	// Start of the stage by the coordinator's wall clock, RFC 3339 in UTC. Null: the stage never started.
	StartTime *string `json:"start_time"`
	// True if nothing is missing: the stage ran to its end, and the merged snapshots equal the totals of every agent.
	Complete bool `json:"complete"`
	// What is missing, in words. Empty if the stage is complete.
	Missing []string `json:"missing"`
	// Whether the numbers of the stage can be believed, and why.
	Trust trust.Trust `json:"trust"`
	// Why the stage ended early although nothing failed: it had measured enough, or it was a search probe that an abort
	// rule ended. Null: it did not.
	Enough *string `json:"enough"`
	// When measuring started, in seconds since the stage's start, if the warm-up lasted until the load was steady.
	// Null: there was no such warm-up.
	MeasuredFromS *float64 `json:"measured_from_s"`
	// Number of requests, by how they ended.
	Requests Requests `json:"requests"`
	// Requests that met the SLO of the plan, or of their part of the mixture. Null: there is none.
	Goodput *Goodput `json:"goodput"`
	// From the first measured start to the last measured end over all agents, in seconds.
	DurationS *float64 `json:"duration_s"`
	// Completed requests per second of duration_s.
	RequestThroughput *float64 `json:"request_throughput"`
	// Output tokens of completed requests per second of duration_s.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	// Input and output tokens of completed requests per second of duration_s.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	// Texts of completed requests (inputs of embeddings, documents of rerank and score) per second of duration_s. Null:
	// the workload does not set their number.
	TextThroughput *float64 `json:"text_throughput"`
	// Time in which requests started, and the rates over that time. Null: not known, or fewer than two requests
	// started.
	Arrivals *ArrivalTime `json:"arrivals"`
	// Largest number of output tokens that arrived in one window of 1 s, over all agents. Null: the server did not
	// report the tokens of all requests.
	PeakOutputTokenThroughput *float64 `json:"peak_output_token_throughput"`
	// Most requests in flight at once.
	PeakConcurrency *PeakConcurrency `json:"peak_concurrency"`
	// The same throughputs without ramp-up and drain. Null: there is no whole window in which every agent was steady.
	Steady *Steady `json:"steady"`
	// Prompt tokens of completed requests by the server's usage. Null: some of them had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Output tokens of completed requests. Null: those of some are not known.
	OutputTokens *uint64 `json:"output_tokens"`
	// How output tokens were counted: by the server's "usage", in "frames" that carry a token, or "mixed". Null: they
	// are not known, or no request completed.
	OutputTokensCounted *string `json:"output_tokens_counted"`
	Latencies
	// Input sequence length.
	ISL SequenceLength `json:"isl_tokens"`
	// Output sequence length.
	OSL SequenceLength `json:"osl_tokens"`
	// Prompt tokens that came from a prefix cache, and those that the workload's prompts share.
	PrefixCache PrefixCache `json:"prefix_cache"`
	// Rows of the workload. Null: the workload does not read a file.
	Dataset *Dataset `json:"dataset"`
	// What the agents found out about the target before the stage. Agents that found the same share one entry.
	Preparations []Preparation `json:"preparations"`
	// Output tokens per token frame, one value per request.
	TokensPerFrame *histogram.Summary `json:"tokens_per_frame"`
	// Counts of connections, frames and reads.
	Streams Streams `json:"streams"`
	// Output tokens that were reasoning. Null: no request reported any.
	Reasoning *Reasoning `json:"reasoning"`
	// How answers ended, by the servers' finish reasons. Null: there were none.
	Endings *Endings `json:"endings"`
	// Models that the answers of completed requests named, most requests first. Empty: they named none.
	AnswerModels []trust.AnswerModel `json:"answer_models"`
	// Images in prompts, and what they cost. Null: there are none in addition to text of a requested length, or no
	// usage.
	Images *Images `json:"images"`
	// Tool calls in answers. Null: no request defined tools, and no answer has a call.
	Tools *ToolCalls `json:"tools"`
	// Answers that had to have a form. Null: none of the requests demanded one that can be checked.
	Answers *CheckedAnswers `json:"answers"`
	// Requests with known answers. Null: none are asked.
	Canaries *Canaries `json:"canaries"`
	// Sessions as tasks, and their requests by turn. Null: the workload does not play sessions.
	Sessions *Sessions `json:"sessions"`
	// Numbers of the same requests by the definitions of vLLM's benchmark.
	VLLM VLLM `json:"vllm"`
	// Failed requests by class. For an HTTP status other than 200, the class is "http_" and the status.
	Errors map[string]uint64 `json:"errors"`
	// Message of the first failure of each class that had a message.
	ErrorExamples map[string]string `json:"error_examples"`
	// Results by part of the mixture, in the order of the parts. Empty: the workload is not a mixture.
	Parts []PartResult `json:"parts"`
	// Results by endpoint, in the order of the target's endpoints.
	Endpoints []EndpointResult `json:"endpoints"`
	// Results by agent, in the order of the split.
	Agents []AgentResult `json:"agents"`
	// Results by region of the agents, sorted by name, with each region's connections.
	Regions []RegionResult `json:"regions"`
	// Server metrics by the URL they were read from: gauges between the first measured start and the last measured end,
	// counters and histograms over the stage (from_s to to_s). Empty: the servers have no metrics, or the plan does not
	// want them to be read.
	Servers []servermetrics.ServerResult `json:"servers"`
	// The servers' own latencies of the stage beside those that the agents measured. Null: the servers report none.
	ServerAccount *servermetrics.ServerAccount `json:"server_account"`
	// What the engines report about speculative decoding, KV caches and their handover. Null: nothing of it.
	Engine *servermetrics.EngineResult `json:"engine"`
	// The same by what the engines do: prefill and decode. Empty: the plan does not say what servers do.
	EngineRoles []servermetrics.EngineRole `json:"engine_roles"`
	// What exporters of GPU metrics reported for the measured part. Null: the plan names none.
	GPUs *servermetrics.GPUResult `json:"gpus"`
	// How far apart the agents started. Null: the starts of fewer than two agents are known.
	StartSpread *StartSpread `json:"start_spread"`
	// Request rows that agents dropped because their memory for rows was full while the coordinator was unreachable.
	DroppedRecords uint64 `json:"dropped_records"`
	// Single requests that show where the time goes: at the median, at the 99th percentile, and the slowest. Empty: the
	// run keeps no request rows, or none has an E2E.
	Examples []Example `json:"examples"`
}

// Example is a completed request of a stage, by its row.
type Example struct {
	// "p50" or "p99": the request whose E2E is nearest to that of the stage. "slowest": one of the five with the
	// longest, the longest first.
	Of string `json:"of"`
	// Index of the request in the stage; of the session, where turn counts.
	Index uint64 `json:"index"`
	// Turn of the session, from 0.
	Turn uint32 `json:"turn"`
	// Name of the agent that sent it.
	Agent string `json:"agent"`
	// URL of the endpoint, without a password.
	Endpoint string `json:"endpoint"`
	// ID of its trace. Null: the plan sets traceparent.
	TraceID *string `json:"trace_id"`
	// Output tokens. Null: not known.
	OutputTokens *uint64 `json:"output_tokens"`
	// For how long max_in_flight held it back. Null: not at all.
	HeldMs *float64 `json:"held_ms"`
	// Start - due, without held_ms.
	SendDelayMs float64 `json:"send_delay_ms"`
	// Time for DNS, TCP and TLS after the start. Null: the connection had been used before.
	ConnectMs *float64 `json:"connect_ms"`
	// Wait for the prefill, as the server reported it within the stream. Null: it did not.
	ServerQueueMs *float64 `json:"server_queue_ms"`
	// When the request had been sent, from its start. Null: not known, as in first_byte_ms.
	SentMs *float64 `json:"sent_ms"`
	// First byte of the response - start.
	FirstByteMs *float64 `json:"first_byte_ms"`
	// First token - start. Null: the answer came in one piece.
	TTFTMs *float64 `json:"ttft_ms"`
	// Last token - start.
	E2EMs float64 `json:"e2e_ms"`
	// The longest gaps between token frames, at most three, the longest first.
	Gaps []Gap `json:"gaps"`
}

// Gap is a time without a token.
type Gap struct {
	// When it began, from the start of the request.
	AtMs float64 `json:"at_ms"`
	// How long it was.
	GapMs float64 `json:"gap_ms"`
}

// StartSpread is the time from the first agent's start to the last agent's.
type StartSpread struct {
	// Latest start - earliest start, in milliseconds.
	SpreadMs float64 `json:"spread_ms"`
	// Uncertainty of spread_ms: the sum of the uncertainties of the two agents' clocks, in milliseconds.
	UncertaintyMs float64 `json:"uncertainty_ms"`
	// Agent that started first.
	Earliest string `json:"earliest"`
	// Agent that started last.
	Latest string `json:"latest"`
}

// Latencies are the merged distributions of times.
type Latencies struct {
	// Time of the first token, with or without text, minus the request's start.
	TTFT *histogram.Summary `json:"ttft_ms"`
	// (Last token - first token) / (output tokens - 1), of requests with 2 tokens or more.
	TPOT *histogram.Summary `json:"tpot_ms"`
	// Gaps between consecutive token frames, of all requests together.
	ITL *histogram.Summary `json:"itl_ms"`
	// Time of the last token minus the request's start.
	E2E *histogram.Summary `json:"e2e_ms"`
	// First text - start, of requests whose first token had no text. Null: there were no such requests.
	TTFTText *histogram.Summary `json:"ttft_text_ms"`
	// First text of the answer - start, of requests that streamed reasoning. Null: there were no such requests.
	TTFTAnswer *histogram.Summary `json:"ttft_answer_ms"`
	// First text of the answer - first token, of requests that streamed reasoning. Null: there were no such requests.
	ReasoningTime *histogram.Summary `json:"reasoning_ms"`
	// First token - scheduled start: free of coordinated omission.
	TTFTScheduled *histogram.Summary `json:"ttft_scheduled_ms"`
	// Last token - scheduled start: free of coordinated omission.
	E2EScheduled *histogram.Summary `json:"e2e_scheduled_ms"`
	// Start - scheduled start, without the time for which max_in_flight held the request back.
	SendDelay *histogram.Summary `json:"send_delay_ms"`
	// From the scheduled start until a place was free, of requests that max_in_flight held back. Null: none was.
	Held *histogram.Summary `json:"held_ms"`
	// From the last event of a response to its end, of those that ended more than a millisecond later. Null: there were
	// none, or no later request on their connections.
	LateEnd *histogram.Summary `json:"late_end_ms"`
	// Time for DNS, TCP and TLS, of completed requests that opened a connection.
	Connect *histogram.Summary `json:"connect_ms"`
	// Time for the DNS lookup, of completed requests that opened a connection and had a name to look up.
	DNS *histogram.Summary `json:"dns_ms"`
	// Time for TCP, of completed requests that opened a connection. A proxy's CONNECT is included.
	TCP *histogram.Summary `json:"tcp_ms"`
	// Time for the TLS handshake, of completed requests that opened a connection with TLS.
	TLS *histogram.Summary `json:"tls_ms"`
	// Round trip to the endpoint as the kernel measured it when a connection was opened, of all connections, including
	// those of a warm-up. Null: it was not measured.
	RTT *histogram.Summary `json:"rtt_ms"`
	// From start to failure, of failed requests.
	FailureTime *histogram.Summary `json:"failure_time_ms"`
	// From the kernel's receipt of a token frame until the agent read the frame.
	ReceiveLag *histogram.Summary `json:"receive_lag_ms"`
	// From one measured start of an agent to the agent's next measured start.
	StartGap *histogram.Summary `json:"start_gap_ms"`
	// Time to first token as the server reports it within the stream (Dynamo does). Null: the server does not report
	// it.
	ServerTTFT *histogram.Summary `json:"server_ttft_ms"`
	// Wait for the prefill as the server reports it within the stream.
	ServerQueue *histogram.Summary `json:"server_queue_ms"`
	// Duration of the prefill as the server reports it within the stream.
	ServerPrefill *histogram.Summary `json:"server_prefill_ms"`
	// Duration of the whole request as the server reports it within the stream.
	ServerTotal *histogram.Summary `json:"server_total_ms"`
}

// ArrivalTime is the time in which measured requests started, without the drain after it. In an open loop, rates over
// this time show what a server keeps up with; duration_s also contains the time of the last answers.
type ArrivalTime struct {
	// From the first start to the last, plus one mean gap, because n starts have only n - 1 gaps between them. In
	// seconds.
	DurationS float64 `json:"duration_s"`
	// Measured requests that started, per second of this time.
	Rate float64 `json:"rate"`
	// Completed requests per second of this time.
	RequestThroughput float64 `json:"request_throughput"`
	// Output tokens of completed requests per second of this time. Null: those of some are not known.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
}

// Reasoning counts the output tokens of completed requests that were reasoning.
type Reasoning struct {
	// Number of reasoning tokens.
	Tokens uint64 `json:"tokens"`
	// Reasoning tokens that were not streamed: the usage counts them, but no frame carried them.
	Hidden uint64 `json:"hidden"`
	// Reasoning tokens per request, of requests that had some.
	PerRequest *histogram.Summary `json:"per_request"`
}

// VLLM holds a stage's numbers by the definitions of vLLM's benchmark (vllm bench serve). Its client times each frame
// with choices, a chunk, whether or not the chunk carries a token. Percentiles are interpolated as in numpy.
type VLLM struct {
	// First chunk - start.
	TTFT *VLLMMetric `json:"ttft_ms"`
	// (Last - first chunk) / (output tokens - 1), of requests with 2 tokens or more.
	TPOT *VLLMMetric `json:"tpot_ms"`
	// Gaps between consecutive chunks.
	ITL *VLLMMetric `json:"itl_ms"`
	// Last chunk - start.
	E2EL *VLLMMetric `json:"e2el_ms"`
	// Most chunks of completed requests in one window of 1 s. vLLM calls these chunks tokens. Null: there is no window.
	PeakOutputTokenThroughput *float64 `json:"peak_output_token_throughput"`
	// Most requests that were in flight at any time during one window of 1 s, even if not at the same instant. Null:
	// there is no window.
	PeakConcurrentRequests *uint64 `json:"peak_concurrent_requests"`
}

// VLLMMetric summarizes one metric as vLLM's benchmark does.
type VLLMMetric struct {
	// Arithmetic mean.
	Mean float64 `json:"mean"`
	// Median.
	Median float64 `json:"median"`
	// Population standard deviation.
	Std float64 `json:"std"`
	// 90th percentile.
	P90 float64 `json:"p90"`
	// 95th percentile.
	P95 float64 `json:"p95"`
	// 99th percentile.
	P99 float64 `json:"p99"`
	// Number of values.
	Count uint64 `json:"count"`
}

// Requests counts the requests of a stage.
type Requests struct {
	// Measured requests that the plan asks for. Null: the plan sets a duration, or no number.
	Planned *uint64 `json:"planned"`
	Outcomes
	// Measured requests that were due and never sent. Null: an agent's totals are missing, or other agents took over
	// its stripe.
	NeverSent *uint64 `json:"never_sent"`
	// Those of never_sent that waited for a request of their session that failed. Null: as never_sent.
	AfterFailure *uint64 `json:"after_failure"`
	// Requests of warm-up and cool-down that started. They are in no other number here.
	Unmeasured uint64 `json:"unmeasured"`
}

// Probe is the place of a stage in a sweep, a search or a frontier.
type Probe struct {
	// Number of the sweep, search or frontier in the run.
	Series uint32 `json:"series"`
	// Number of the stage in it, from 0.
	Number uint32 `json:"number"`
	// What the stage was for: "synchronous", "saturated", "rate", "bracket", "bisect", "confirm", "repeat" or "again".
	Purpose string `json:"purpose"`
}

// Goodput counts the requests that met every part of the SLO.
type Goodput struct {
	// Limit of the TTFT, in milliseconds. Null: none, or the parts of the mixture have limits of their own.
	TTFTMs *float64 `json:"ttft_ms"`
	// Limit of the TPOT, in milliseconds. Null: as for ttft_ms.
	TPOTMs *float64 `json:"tpot_ms"`
	// Limit of the E2E latency, in milliseconds. Null: as for ttft_ms.
	E2EMs *float64 `json:"e2e_ms"`
	// Completed requests that met every limit: those of their part, if it has limits of its own.
	Requests uint64 `json:"requests"`
	// Requests that met the SLO, per second of duration_s.
	RequestThroughput *float64 `json:"request_throughput"`
	// Requests that met the SLO, as a share of the completed and failed ones. Null: there are none.
	Share *float64 `json:"share"`
}

// PrefixCache compares the prompt tokens that requests had in common with those that the server took from its cache.
type PrefixCache struct {
	// Share of the input tokens that are in a prefix shared with an earlier request of the stage, by the workload's own
	// count. Null: input tokens are not known.
	SharedShare *float64 `json:"shared_share"`
	// Share of the input tokens that the server took from its cache. Null: its usage does not report it.
	CachedShare *float64 `json:"cached_share"`
}

// Sessions counts and times the measured sessions of a stage, each of which is a task for the server.
type Sessions struct {
	// Sessions all of whose requests completed.
	Completed uint64 `json:"completed"`
	// Sessions with a request that failed, was cancelled or was not sent because others were.
	Broken uint64 `json:"broken"`
	// Time to the completed task: from the start of a session's first request to the end of its last one, of completed
	// sessions. Null: there are none.
	Task *histogram.Summary `json:"task_ms"`
	// Time in requests on the critical path of such a session, the chain of requests that ended last: each request of
	// it waited for the one before. Null: there are none.
	TaskRequests *histogram.Summary `json:"task_requests_ms"`
	// Rest of the time of such a session: delays of tools and users on the critical path. Null: there are none.
	TaskDelays *histogram.Summary `json:"task_delays_ms"`
	// Completed requests by turn. From turn 16 on, as many turns as all before them are together.
	Turns []TurnResult `json:"turns"`
}

// TurnResult is what was measured of some turns of sessions, over completed requests.
type TurnResult struct {
	// First of the turns, from 0.
	From uint32 `json:"from"`
	// Last of the turns.
	To uint32 `json:"to"`
	// Number of requests.
	Completed uint64 `json:"completed"`
	// Time of the first token minus the request's start. Null: answers had none.
	TTFT *histogram.Summary `json:"ttft_ms"`
	// Time of the last token minus the request's start. Null: answers had none.
	E2E *histogram.Summary `json:"e2e_ms"`
	// Prompt tokens by the server's usage. Null: some requests had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Prompt tokens that came from a prefix cache, and those that the workload's prompts share.
	PrefixCache PrefixCache `json:"prefix_cache"`
}

// Endings counts answers by their finish reasons. All but the aborted ones are completed requests.
type Endings struct {
	// The model ended the answer, or a stop word.
	Stop uint64 `json:"stop"`
	// A limit on tokens ended it.
	Length uint64 `json:"length"`
	// It ended in tool calls.
	ToolCalls uint64 `json:"tool_calls"`
	// A content filter or a refusal ended it.
	Filtered uint64 `json:"filtered"`
	// It had another finish reason.
	Other uint64 `json:"other"`
	// It had no finish reason.
	Unknown uint64 `json:"unknown"`
	// The server ended it early: the errors of class "aborted".
	Aborted uint64 `json:"aborted"`
}

// Images are those in the prompts of completed requests with usage.
type Images struct {
	// Number of images.
	Count uint64 `json:"count"`
	// Prompt tokens by usage beyond those that were asked for as text, for each image.
	TokensEach float64 `json:"tokens_each"`
}

// ToolCalls counts the tool calls of completed requests.
type ToolCalls struct {
	// Requests that defined tools.
	Requests uint64 `json:"requests"`
	// Requests whose answer has a tool call.
	WithCalls uint64 `json:"with_calls"`
	// Tool calls.
	Calls uint64 `json:"calls"`
	// Calls that name a tool of their request and have a JSON object as arguments.
	ValidCalls uint64 `json:"valid_calls"`
	// Valid calls as a share of the calls. Null: there are none.
	ValidShare *float64 `json:"valid_share"`
}

// CheckedAnswers counts the answers of completed requests that had to have a form, such as a JSON Schema.
type CheckedAnswers struct {
	// Requests that demanded a form which can be checked, and whose answer is not a tool call.
	Checked uint64 `json:"checked"`
	// Answers that have the form.
	Valid uint64 `json:"valid"`
	// Valid answers as a share of the checked ones. Null: there are none.
	ValidShare *float64 `json:"valid_share"`
}

// Canaries counts requests with known answers, which are in no other number.
type Canaries struct {
	// Answers of the quiet target, before the load.
	Quiet CanaryAnswers `json:"quiet"`
	// Answers beside the load.
	Load CanaryAnswers `json:"load"`
	// Canaries beside the load that failed or were cancelled.
	Failed uint64 `json:"failed"`
}

// CanaryAnswers counts answers to canaries.
type CanaryAnswers struct {
	// Number of answers.
	Asked uint64 `json:"asked"`
	// Answers that differ from most answers of the quiet endpoint to the same canary.
	Differing uint64 `json:"differing"`
	// Differing answers as a share of all. Null: there are none.
	DifferingShare *float64 `json:"differing_share"`
	// Mean number of the first word in which differing answers differ, from 1. Null: none does, or it is not known.
	FirstDifference *float64 `json:"first_difference"`
	// Answers to tasks, which have a right answer.
	Tasks uint64 `json:"tasks"`
	// Right answers to tasks.
	Right uint64 `json:"right"`
	// Right answers as a share of the tasks. Null: there are none.
	RightShare *float64 `json:"right_share"`
}

// Dataset describes the rows of a workload's file.
type Dataset struct {
	// SHA-256 of the rows.
	SHA256 string `json:"sha256"`
	// Number of rows.
	Rows uint64 `json:"rows"`
	// Rows of the file that could not be used.
	Skipped uint64 `json:"skipped"`
}

// Preparation is what agents found out about a target.
type Preparation struct {
	// Number of agents that found this.
	Agents int `json:"agents"`
	// How prompts got their length: "token_ids", "words", "server", "usage", "file", or "own" if the workload provides
	// the text.
	Lengths string `json:"lengths"`
	// Tokens that the server adds to a prompt. Null: not known.
	TemplateTokens *uint32 `json:"template_tokens"`
	// True if requests asked the server for exactly the output length.
	ExactOutput bool `json:"exact_output"`
	// How exact_output was found out: "plan", "known" or "tried". Null: it was not.
	ExactOutputBy *string `json:"exact_output_by"`
	// True if frames carried the running usage, as requests asked for.
	RunningUsage bool `json:"running_usage"`
	// Number of requests that these agents sent to find this out, all together.
	Requests uint32 `json:"requests"`
	// Most tokens that the server accepts for prompt and output together. Null: the server does not report it.
	MaxModelTokens *uint32 `json:"max_model_tokens"`
	// Software of the server. Empty: not known.
	Server string `json:"server"`
	// Notes for a person to read.
	Notes []string `json:"notes"`
}

// PeakConcurrency is the most requests in flight at once.
type PeakConcurrency struct {
	// Requests in flight.
	Requests uint64 `json:"requests"`
	// True if the number is exact. Otherwise it is the sum of several agents' peaks in one window: an upper bound.
	Exact bool `json:"exact"`
}

// Steady is the part of a stage in which every agent's load was at its full level, in whole windows of 1 s.
type Steady struct {
	// Start, in seconds since the stage's start.
	FromS float64 `json:"from_s"`
	// End, in seconds since the stage's start.
	ToS float64 `json:"to_s"`
	// Length in seconds.
	DurationS float64 `json:"duration_s"`
	// Requests done per second. A completed request that was in flight here for a part of its time counts as that part.
	RequestThroughput float64 `json:"request_throughput"`
	// Output tokens that arrived per second. Null: the server did not report the tokens of all requests.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
}

// SequenceLength compares the requested lengths with the actual ones.
type SequenceLength struct {
	// Length that the workload asked for. Null: it asks for no single length, or answers have no tokens.
	Asked *uint32 `json:"asked"`
	// Actual lengths: of prompts by the server's usage, of outputs by usage or frames.
	Seen *histogram.Summary `json:"seen"`
	// Completed requests whose length is not the one asked for.
	Missed uint64 `json:"missed"`
	// Missed as a share of the completed requests whose length is known. Null: there are none.
	MissedShare *float64 `json:"missed_share"`
}

// Streams counts connections, frames and reads.
type Streams struct {
	// Connections opened.
	Connections uint64 `json:"connections"`
	// Requests sent once more because the server closed a kept connection before it answered. Their times count from
	// the first try.
	Reconnected uint64 `json:"reconnected"`
	// Requests whose response had not ended a millisecond after its last event. late_end_ms has the times.
	LateEnds uint64 `json:"late_ends"`
	// Frames that arrived and may carry a token, no matter how their requests ended.
	Frames uint64 `json:"frames"`
	// Tokens of these frames by the server's running usage. Null: the running usage does not cover all of them.
	TokensArrived *uint64 `json:"tokens_arrived"`
	// Frames that carried a token, of completed requests.
	TokenFrames uint64 `json:"token_frames"`
	// Bytes of text in token_frames, encoded as JSON.
	TextBytes uint64 `json:"text_bytes"`
	// Completed requests whose text has replacement characters, or one token over and over.
	GarbledAnswers uint64 `json:"garbled_answers"`
	// Completed requests with output tokens, and no text and no tool call.
	EmptyAnswers uint64 `json:"empty_answers"`
	// Reads that held several frames of one stream: the times of all but the last frame are too late.
	CoalescedReads uint64 `json:"coalesced_reads"`
	// Frames timed by the program's clock because the kernel gave no timestamp.
	UnstampedFrames uint64 `json:"unstamped_frames"`
	// Frames with the time of the packet that carried their last byte: --packet-times.
	PacketFrames uint64 `json:"packet_frames"`
	// Completed requests that were answered by one body although they asked for a stream.
	WholeAnswers uint64 `json:"whole_answers"`
	// Completed requests that were answered by a stream although they asked for one body.
	StreamedAnswers uint64 `json:"streamed_answers"`
	// Completed streams of several tokens that arrived in one frame.
	InOneFrame uint64 `json:"in_one_frame"`
	// Completed streams of several frames that the server wrote at once: they arrived in one read, or less than 20 us
	// apart on average.
	WrittenAtOnce uint64 `json:"written_at_once"`
	// Completed streams that have frames without text, if nothing shows whether those frames carried a token.
	Undecided uint64 `json:"undecided"`
}

// Breakdown holds the numbers of one endpoint or agent.
type Breakdown struct {
	// Number of requests, by how they ended.
	Requests Outcomes `json:"requests"`
	// Prompt tokens of completed requests by the server's usage. Null: some of them had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Output tokens of completed requests. Null: those of some are not known.
	OutputTokens *uint64 `json:"output_tokens"`
	// First token - start.
	TTFT *histogram.ShortSummary `json:"ttft_ms"`
	// (Last - first token) / (output tokens - 1).
	TPOT *histogram.ShortSummary `json:"tpot_ms"`
	// Last token - start.
	E2E *histogram.ShortSummary `json:"e2e_ms"`
	// Failed requests by class.
	Errors map[string]uint64 `json:"errors"`
}

// Outcomes counts the requests of stages, or of a part of one: an endpoint, an agent or a region.
type Outcomes struct {
	// Measured requests that started.
	Started uint64 `json:"started"`
	// Started requests that completed.
	Completed uint64 `json:"completed"`
	// Started requests that failed.
	Failed uint64 `json:"failed"`
	// Started requests that were cancelled by a stop or by the end of the drain.
	Cancelled uint64 `json:"cancelled"`
}

// EndpointResult is what was measured at one endpoint.
type EndpointResult struct {
	// Base URL, without a password.
	URL string `json:"url"`
	// Requests with known answers. Null: none are asked.
	Canaries *Canaries `json:"canaries"`
	Breakdown
}

// RegionResult is what was measured from one region.
type RegionResult struct {
	// Name of the region. Empty: agents without a region.
	Name string `json:"name"`
	// Number of agents in the region.
	Agents int `json:"agents"`
	Contribution
}

// Contribution holds what the agents of one region measured together.
type Contribution struct {
	// Number of requests, by how they ended.
	Requests Outcomes `json:"requests"`
	// Prompt tokens of completed requests by the server's usage. Null: some of them had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Output tokens of completed requests. Null: those of some are not known.
	OutputTokens *uint64 `json:"output_tokens"`
	// Completed requests per second of the stage's duration_s.
	RequestThroughput *float64 `json:"request_throughput"`
	// Output tokens of completed requests per second of duration_s.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	// Input and output tokens of completed requests per second of duration_s.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	Latencies
	// Failed requests by class.
	Errors map[string]uint64 `json:"errors"`
	// Connections to each endpoint, in the order of the target's endpoints.
	Paths []PathResult `json:"paths"`
}

// PartResult is what was measured with one part of a mixture.
type PartResult struct {
	// Name of the part.
	Name string `json:"name"`
	// Weight of the part in the plan.
	Weight float64 `json:"weight"`
	// Share of the stage's started requests that are the part's. A session is one arrival, but several requests. Null:
	// no request started.
	Share *float64 `json:"share"`
	// Number of requests, by how they ended.
	Requests Outcomes `json:"requests"`
	// Requests that met the SLO. Null: there is none.
	Goodput *Goodput `json:"goodput"`
	// Prompt tokens of completed requests by the server's usage. Null: some of them had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Output tokens of completed requests. Null: those of some are not known.
	OutputTokens *uint64 `json:"output_tokens"`
	// Completed requests per second of the stage's duration_s.
	RequestThroughput *float64 `json:"request_throughput"`
	// Output tokens of completed requests per second of the stage's duration_s.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	// Input and output tokens of completed requests per second of the stage's duration_s.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	Latencies
	// Prompt tokens of a request by the server's usage.
	ISL *histogram.Summary `json:"isl_tokens"`
	// Output tokens of a request.
	OSL *histogram.Summary `json:"osl_tokens"`
	// Failed requests by class.
	Errors map[string]uint64 `json:"errors"`
	// How answers ended. Null: as for the stage.
	Endings *Endings `json:"endings"`
	// Models that answers named. Empty: as for the stage.
	AnswerModels []trust.AnswerModel `json:"answer_models"`
	// Images in prompts, and what they cost. Null: as for the stage.
	Images *Images `json:"images"`
	// Tool calls in answers. Null: as for the stage.
	Tools *ToolCalls `json:"tools"`
	// Answers that had to have a form. Null: as for the stage.
	Answers *CheckedAnswers `json:"answers"`
	// Rows of the part's workload. Null: the workload does not read a file.
	Dataset *Dataset `json:"dataset"`
}

// PathResult is what was measured of the network path from a region to an endpoint.
type PathResult struct {
	// Base URL of the endpoint, without a password.
	URL string `json:"url"`
	// Time for DNS, TCP and TLS, of completed requests that opened a connection.
	Connect *histogram.Summary `json:"connect_ms"`
	// Round trip as the kernel measured it, one value per connection.
	RTT *histogram.Summary `json:"rtt_ms"`
}

// AgentResult is what one agent measured.
type AgentResult struct {
	// Name of the agent.
	Name string `json:"name"`
	// Region of the agent.
	Region string `json:"region"`
	// Weight of the agent in the split.
	Weight uint32 `json:"weight"`
	// Why the agent's measurements are missing or end early. Null: neither is the case.
	Failure *string `json:"failure"`
	// When the agent joined the stage, in seconds since the stage's start. Null: it was there from the start.
	JoinedS *float64 `json:"joined_s"`
	// When others had the agent's part because it left, in seconds since the stage's start. Nothing is missing. Null:
	// it stayed.
	LeftS *float64 `json:"left_s"`
	// What was lost with the agent. Null: the agent was not lost.
	Loss *Loss `json:"loss"`
	// Actual start of the agent's load - armed start, in milliseconds. Null: the agent's totals are missing, it started
	// no request, or it joined later.
	StartErrorMs *float64 `json:"start_error_ms"`
	// Uncertainty of the agent's clock against the coordinator's at the start, in milliseconds. Null: the agent's
	// totals are missing.
	ClockUncertaintyMs *float64 `json:"clock_uncertainty_ms"`
	// Measured requests of the agent that were due and never sent. Null: the agent's totals are missing.
	NeverSent *uint64 `json:"never_sent"`
	Breakdown
}

// Loss is what the result lacks because an agent was lost.
type Loss struct {
	// Share of the load that the agent had, from 0 to 1.
	Share float64 `json:"share"`
	// Second of the stage from which on the result has nothing from the agent.
	FromS float64 `json:"from_s"`
	// Second of the stage until which the agent's share is missing: when other agents took it over, or the end of the
	// stage's last second. Null: all of the rest is missing, because no agent had its part up to the end, or because
	// the load is a closed loop that ends by its requests, of which the agent may have had some for longer than the
	// others.
	ToS *float64 `json:"to_s"`
	// True if other agents took over the agent's stripe.
	TakenOver bool `json:"taken_over"`
	// Second of the stage from which on the agent did not send requests that were due, if that is before from_s: its
	// process was suspended, or drained after its lease had ended. In a closed loop, a slot was free and started
	// nothing. Null: there were none, or it is not known.
	UnsentFromS *float64 `json:"unsent_from_s"`
}

// Headline is the answer of a run in words, made by package headline. Rates and times in it are those of the plan.
type Headline struct {
	// What the answer is about: "targets" side by side, one "target", what a "series" found, or "nothing" if no stage
	// can be believed.
	Kind string `json:"kind"`
	// Of targets side by side, how the others differ from the baseline: "BETTER", "WORSE", "MIXED", "SAME" or "UNCLEAR".
	// Null: nothing was compared.
	Verdict *string `json:"verdict"`
	// One to three sentences. What went wrong comes first.
	Sentences []string `json:"sentences"`
	// Why the answer is doubtful, in one line. Null: no reason is known.
	Doubt *string `json:"doubt"`
	// Indices of the stages that the answer rests on.
	Stages []uint32 `json:"stages"`
}

// Lines returns the answer, and then the doubt if there is one. Nil: there is no answer.
func (h *Headline) Lines() []string {
	if h == nil {
		return nil
	}
	lines := []string{strings.Join(h.Sentences, " ")}
	if h.Doubt != nil {
		lines = append(lines, "Doubt: "+*h.Doubt)
	}
	return lines
}

// Rest adds stages that the answer rests on, each once.
func (h *Headline) Rest(stages ...uint32) {
	for _, s := range stages {
		if !slices.Contains(h.Stages, s) {
			h.Stages = append(h.Stages, s)
		}
	}
}

// Load is the load of a stage. A closed loop has a concurrency; an open loop has a rate and an arrival process.
type Load struct {
	// The load in words, without when it ends: "concurrency 8", "2 req/s poisson".
	Words string `json:"words"`
	// Number of slots (requests in flight at all times), over all agents; with phases, the highest number.
	Concurrency *uint32 `json:"concurrency,omitempty"`
	// Requests per second, over all agents; with phases, the highest rate.
	Rate *float64 `json:"rate,omitempty"`
	// Arrival process: "poisson", "constant", "gamma" or "trace".
	Arrival *string `json:"arrival,omitempty"`
	// Open loop: most requests in flight, over all agents.
	MaxInFlight *uint32 `json:"max_in_flight,omitempty"`
	// Gamma arrivals: shape parameter of the distribution of gaps.
	Burstiness *float64 `json:"burstiness,omitempty"`
	// Trace: factor by which the replay is faster than the recording.
	ReplaySpeed *float64 `json:"replay_speed,omitempty"`
	// Concurrency or rate over time.
	Phases []Phase `json:"phases,omitempty"`
	// Closed loop: mean time between the end of a request and the start of the next one in its slot, in milliseconds.
	ThinkTimeMs *float64 `json:"think_time_ms,omitempty"`
	// Number of the repeat, from 0.
	Repeat uint32 `json:"repeat"`
	// Number of measured arrivals after which the stage ends. Null: the load has no such limit.
	Requests *uint64 `json:"requests"`
	// Time in which measured requests start, in seconds. Null: the load has no such limit.
	DurationS *float64 `json:"duration_s"`
}

// Phase is a time in which a rate or a concurrency changes or stays the same.
type Phase struct {
	// Rate or concurrency at the start of the phase.
	From float64 `json:"from"`
	// Rate or concurrency at the end of the phase.
	To float64 `json:"to"`
	// Length in seconds.
	DurationS float64 `json:"duration_s"`
}

// loadOf describes the load of a stage.
func loadOf(p *spatev1.LoadPoint) Load {
	l := Load{
		Words: loadpoint.Words(p), Burstiness: unlessZero(p.GetBurstiness()),
		MaxInFlight: unlessZero(p.GetMaxInFlight()), ReplaySpeed: unlessZero(p.GetReplaySpeed()),
		Repeat: p.GetRepeat(), Requests: unlessZero(p.GetRequests()), DurationS: seconds(p.GetDuration()),
	}
	l.Phases = lists.Each(p.GetPhases(), func(of *spatev1.Phase) Phase {
		return Phase{of.GetFrom(), of.GetTo(), of.GetDuration().AsDuration().Seconds()}
	})
	if p.GetThinkTime() != nil {
		l.ThinkTimeMs = new(millis(p.GetThinkTime().GetMean().AsDuration().Nanoseconds()))
	}
	if p.GetConcurrency() > 0 {
		l.Concurrency = unlessZero(p.GetConcurrency())
		return l
	}
	l.Rate, l.Arrival = unlessZero(p.GetRate()), unlessZero(p.GetArrival())
	return l
}

// Value returns the load's concurrency or rate. 0: it has neither.
func (l Load) Value() float64 {
	switch {
	case l.Concurrency != nil:
		return float64(*l.Concurrency)
	case l.Rate != nil:
		return *l.Rate
	}
	return 0
}

// Shared returns the load in words, without the number of the repeat, in older results from 0: that of all repeats.
func (l Load) Shared() string {
	shared, _, _ := strings.Cut(l.Words, ", repeat ")
	return shared
}

// String returns the load in words: "concurrency 8", "2 req/s poisson".
func (l Load) String() string { return l.Words }
