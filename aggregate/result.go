package aggregate

import "github.com/spate-load/spate/aggregate/trust"

// Result is the result of a run: the content of results.json. What is not known is null.
type Result struct {
	// The run as a whole.
	Run RunResult `json:"run"`
	// Its stages, in the order in which they ran. Stages that never began are not listed.
	Stages []StageResult `json:"stages"`
}

// RunResult says which run it was and whether anything is missing.
type RunResult struct {
	// Id of the run.
	ID string `json:"id"`
	// Name of the plan.
	Plan *string `json:"plan"`
	// Seed of the plan.
	Seed *uint64 `json:"seed"`
	// Begin by the coordinator's wall clock, RFC 3339 in UTC.
	BeginTime *string `json:"begin_time"`
	// End by the coordinator's wall clock. Null: the coordinator died before it.
	EndTime *string `json:"end_time"`
	// How it ended: "done", "stopped" or "failed". Null: it did not end.
	Outcome *string `json:"outcome"`
	// Why it did not run to its end. Null: it did.
	Reason *string `json:"reason"`
	// Version of the coordinator's program.
	Version string `json:"version"`
	// Version of what the numbers mean: measure.Definitions.
	Definitions uint32 `json:"definitions"`
	// Form of the request rows beside this file: "jsonl" or "parquet". Null: none were kept.
	Records *string `json:"records"`
	// Stages that the plan has, those of its sweeps and searches as far as they turned out to be needed.
	StagesPlanned uint32 `json:"stages_planned"`
	// It ran on the simulator, with times so many times shorter than its plan's; 1: as long. Null: it is no simulation.
	TimeCompression *float64 `json:"time_compression"`
	// What its searches found, in their order.
	Searches []SearchResult `json:"searches"`
	// How often the coordinator was started anew while the run went on, or the run was resumed.
	Restarts uint32 `json:"restarts"`
	// Agents that took part in any stage, by name.
	Agents []RunAgent `json:"agents"`
	// Nothing is missing: each planned stage is there and complete.
	Complete bool `json:"complete"`
	// What is missing, in words. Empty if complete.
	Missing []string `json:"missing"`
	// Verdict on the measurements: the worst of the stages'. Of a search's probes only the one at the load that it
	// found counts. Null: no stage was judged.
	Verdict *trust.Verdict `json:"verdict"`
}

// SearchResult is the highest load that a search found to keep its objectives.
type SearchResult struct {
	// Number of the search in the run. Its stages have the same in their probe.
	Series uint32 `json:"series"`
	// Name of the target.
	Target string `json:"target"`
	// Name of the workload.
	Workload string `json:"workload"`
	// What was searched: "rate" in requests per second, or "concurrency".
	Unit string `json:"unit"`
	// Objectives in words.
	Objectives []string `json:"objectives"`
	// Highest load that kept them. Null: none did.
	Kept *float64 `json:"kept"`
	// Lowest load that did not. Null: none was found.
	Broke *float64 `json:"broke"`
	// Which objective broke there, with its number. Null: none did.
	Reason *string `json:"reason"`
	// Index of the stage of the highest load that kept them. Null: there is none.
	Stage *uint32 `json:"stage"`
	// Stages that the search took.
	Probes uint32 `json:"probes"`
	// The two loads are as close as was asked for.
	Converged bool `json:"converged"`
	// Mean request throughput of the stages at the load that was found. Null: there are fewer than two.
	MeanThroughput *float64 `json:"mean_throughput"`
	// Half the width of its 95 % confidence interval. Null: there are fewer than two.
	ThroughputMargin *float64 `json:"throughput_margin"`
	// Worst verdict on the measurements at the two loads. Null: none was judged.
	Verdict *trust.Verdict `json:"verdict"`
	// Why it is not VALID, in words. Null: it is.
	Doubts *string `json:"doubts"`
}

// RunAgent describes an agent.
type RunAgent struct {
	// Name of the agent.
	Name string `json:"name"`
	// Region it said it is in. Empty: it said none.
	Region string `json:"region"`
	// Host name.
	Host string `json:"host"`
	// Version of its program.
	Version string `json:"version"`
	// Cores it may use. Null: it did not say.
	Cores *uint32 `json:"cores"`
}

// StageResult is the result of one stage. All numbers leave warm-up and cool-down out but those that name them.
type StageResult struct {
	// Place of the stage in the run, from 0.
	Index uint32 `json:"index"`
	// Name of the target.
	Target string `json:"target"`
	// Name of the workload.
	Workload string `json:"workload"`
	// When its requests started and ended.
	Load Load `json:"load"`
	// The stage's place in a sweep or a search. Null: it belongs to none.
	Probe *Probe `json:"probe"`
	// Model asked for.
	Model string `json:"model"`
	// API used, as plans name it.
	API string `json:"api"`
	// Seed of the stage: equal seeds, equal requests.
	Seed uint64 `json:"seed"`
	// Start by the coordinator's wall clock, RFC 3339 in UTC. Null: it never started.
	StartTime *string `json:"start_time"`
	// Nothing is missing: the stage ran to its end, and what was merged equals the totals of every agent.
	Complete bool `json:"complete"`
	// What is missing, in words. Empty if complete.
	Missing []string `json:"missing"`
	// Whether the numbers can be believed, and why.
	Trust trust.Trust `json:"trust"`
	// Why it ended before its planned end though nothing is wrong: it had measured enough. Null: it did not.
	Enough *string `json:"enough"`
	// When measuring began, in seconds since the start, after a warm-up until the load was steady. Null: there was no
	// such warm-up.
	MeasuredFromS *float64 `json:"measured_from_s"`
	// Requests counted.
	Requests Requests `json:"requests"`
	// Requests that kept the plan's SLO. Null: the plan has none.
	Goodput *Goodput `json:"goodput"`
	// From the first measured start to the last measured end of any agent, in seconds.
	DurationS *float64 `json:"duration_s"`
	// Completed requests per second of duration_s.
	RequestThroughput *float64 `json:"request_throughput"`
	// Output tokens of completed requests per second of duration_s.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	// Input and output tokens of completed requests per second of duration_s.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	// The time in which requests started, and the rates over it. Null: fewer than two did.
	Arrivals *ArrivalTime `json:"arrivals"`
	// Largest number of output tokens, over all agents, that arrived in one window of 1 s. Null: the server tells
	// tokens of none or of some requests only.
	PeakOutputTokenThroughput *float64 `json:"peak_output_token_throughput"`
	// Most requests in flight at once.
	PeakConcurrency *PeakConcurrency `json:"peak_concurrency"`
	// The same throughputs with ramp-up and drain cut off. Null: there is no whole window in which every agent was
	// steady.
	Steady *Steady `json:"steady"`
	// Prompt tokens of completed requests by the server's usage. Null: some had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Output tokens of completed requests.
	OutputTokens uint64 `json:"output_tokens"`
	// How output tokens were counted: by the server's "usage", in "frames" that carry a token, or "mixed". Null: none
	// completed.
	OutputTokensCounted *string `json:"output_tokens_counted"`
	Latencies
	// Input sequence length.
	ISL SequenceLength `json:"isl_tokens"`
	// Output sequence length.
	OSL SequenceLength `json:"osl_tokens"`
	// Prompt tokens that came from a prefix cache, beside what the workload gave it to find.
	PrefixCache PrefixCache `json:"prefix_cache"`
	// The workload's rows. Null: it takes none from a file.
	Dataset *Dataset `json:"dataset"`
	// What the agents found out about the target before the stage, once for all that found the same.
	Preparations []Preparation `json:"preparations"`
	// Output tokens per token frame, a value per request.
	TokensPerFrame *Distribution `json:"tokens_per_frame"`
	// What was seen on the connections.
	Streams Streams `json:"streams"`
	// Output tokens that were reasoning. Null: no request told of any.
	Reasoning *Reasoning `json:"reasoning"`
	// The same requests in the definitions of vLLM's benchmark.
	VLLM VLLM `json:"vllm"`
	// Failed requests by class. An HTTP status other than 200 is "http_" and the status.
	Errors map[string]uint64 `json:"errors"`
	// The message of the first failure of each class, where there was one.
	ErrorExamples map[string]string `json:"error_examples"`
	// The same by endpoint, in the order of the target's.
	Endpoints []EndpointResult `json:"endpoints"`
	// The same by agent, in the order of the split. Observers are not among them.
	Agents []AgentResult `json:"agents"`
	// The same by region of the agents, by name, and each region's connections.
	Regions []RegionResult `json:"regions"`
	// What observers measured beside the load, by region. It is in no other number.
	Observers []ObserverResult `json:"observers"`
	// What servers say of themselves, by the place where they were asked: gauges between the first measured start and
	// the last measured end, counters and histograms by their account. Empty: they have no metrics, or the plan says
	// not to read them.
	Servers []ServerResult `json:"servers"`
	// The servers' own account of the stage beside the clients'. Null: there is none.
	ServerAccount *ServerAccount `json:"server_account"`
	// How far apart the agents began. Null: fewer than two of them said when.
	StartSpread *StartSpread `json:"start_spread"`
	// Request rows that were left out because an agent's memory for them was full while its coordinator was gone.
	DroppedRecords uint64 `json:"dropped_records"`
}

// ServerResult is what one server says of itself.
type ServerResult struct {
	// Where it was asked, without a password.
	URL string `json:"url"`
	// How often it was asked.
	Asked uint64 `json:"asked"`
	// How often it did not answer in time, or not in Prometheus' text form.
	Failed uint64 `json:"failed"`
	// Values left out since they were more than are taken of one server.
	ValuesLeftOut uint64 `json:"values_left_out"`
	// When its counters and histograms were read first, in seconds since the stage's start: before it, or at the end of
	// a warm-up. Null: they were not read at both ends of the stage.
	FromS *float64 `json:"from_s"`
	// When they were read last: after the last request of all agents.
	ToS *float64 `json:"to_s"`
	// It was started again in between: what it had counted before is lost.
	Restarted bool `json:"restarted"`
	// What it says, by name and labels.
	Metrics []ServerMetric `json:"metrics"`
}

// ServerMetric sums up one series that a server told.
type ServerMetric struct {
	// Name of the metric.
	Name string `json:"name"`
	// Labels as in Prometheus' text form, without the braces. Empty: it has none.
	Labels string `json:"labels"`
	// What it is: "gauge", "counter" or "histogram".
	Kind string `json:"kind"`
	// Readings that it comes from.
	Samples uint64 `json:"samples"`
	// Mean of a gauge's readings, or exact mean of the values that a histogram counted. Null: it is a counter, or no
	// values.
	Mean *float64 `json:"mean"`
	// Least of a gauge's readings. Null: it is no gauge.
	Min *float64 `json:"min"`
	// Largest of a gauge's readings. Null: it is no gauge.
	Max *float64 `json:"max"`
	// What a counter grew by from the first reading to the last, new starts of the server seen to. Null: it is no
	// counter, or there is one reading.
	Increase *float64 `json:"increase"`
	// The same per second.
	PerSecond *float64 `json:"per_second"`
	// Values that a histogram counted, over all its labels. Null: it is none.
	Count *uint64 `json:"count"`
	// Median of them. Null: it is no histogram, or its buckets are not known.
	P50 *ServerQuantile `json:"p50"`
	// 90th percentile of them.
	P90 *ServerQuantile `json:"p90"`
	// 99th percentile of them.
	P99 *ServerQuantile `json:"p99"`
}

// StartSpread is the time from the first agent's start to the last one's.
type StartSpread struct {
	// Latest start - earliest start, in milliseconds.
	SpreadMs float64 `json:"spread_ms"`
	// Uncertainty of that: of the two agents' clocks together, in milliseconds.
	UncertaintyMs float64 `json:"uncertainty_ms"`
	// Agent that began first.
	Earliest string `json:"earliest"`
	// Agent that began last.
	Latest string `json:"latest"`
}

// Latencies are merged times.
type Latencies struct {
	// First token, with or without text - start.
	TTFT *Distribution `json:"ttft_ms"`
	// (Last - first token) / (output tokens - 1), of requests with 2 tokens or more.
	TPOT *Distribution `json:"tpot_ms"`
	// Gaps between consecutive token frames, of all requests together.
	ITL *Distribution `json:"itl_ms"`
	// Last token - start.
	E2E *Distribution `json:"e2e_ms"`
	// First text - start, of requests whose first token had no text. Null: there were none.
	TTFTText *Distribution `json:"ttft_text_ms"`
	// First text of the answer - start, of requests that streamed reasoning. Null: there were none.
	TTFTAnswer *Distribution `json:"ttft_answer_ms"`
	// First text of the answer - first token, of requests that streamed reasoning. Null: there were none.
	ReasoningTime *Distribution `json:"reasoning_ms"`
	// First token - scheduled: free of coordinated omission.
	TTFTScheduled *Distribution `json:"ttft_scheduled_ms"`
	// Last token - scheduled: free of coordinated omission.
	E2EScheduled *Distribution `json:"e2e_scheduled_ms"`
	// Start - scheduled.
	SendDelay *Distribution `json:"send_delay_ms"`
	// DNS, TCP and TLS, of completed requests that opened a connection.
	Connect *Distribution `json:"connect_ms"`
	// The name lookup of those, where there was a name to look up.
	DNS *Distribution `json:"dns_ms"`
	// TCP of those, a proxy's CONNECT included.
	TCP *Distribution `json:"tcp_ms"`
	// TLS of those, where there is TLS.
	TLS *Distribution `json:"tls_ms"`
	// Round trip to the endpoint by the kernel's measure when a connection was made, of all connections, those of a
	// warm-up too. Null: nobody measured it.
	RTT *Distribution `json:"rtt_ms"`
	// Start to failure, of failed requests.
	FailureTime *Distribution `json:"failure_time_ms"`
	// Time from the kernel's receipt of a token frame to the program's read of it.
	ReceiveLag *Distribution `json:"receive_lag_ms"`
	// Time from one measured start of an agent to its next one.
	StartGap *Distribution `json:"start_gap_ms"`
	// Time to first token as the server told it within the stream, as Dynamo does. Null: it does not.
	ServerTTFT *Distribution `json:"server_ttft_ms"`
	// Wait for the prefill as the server told it.
	ServerQueue *Distribution `json:"server_queue_ms"`
	// Prefill as the server told it.
	ServerPrefill *Distribution `json:"server_prefill_ms"`
	// Time of the whole request as the server told it.
	ServerTotal *Distribution `json:"server_total_ms"`
}

// ArrivalTime is the time in which measured requests started, without the drain behind it. Rates over it are what a
// server keeps up with in an open loop; duration_s holds the time of the last answers too.
type ArrivalTime struct {
	// From the first start to the last, and a mean gap more: n starts have n - 1 gaps between them. In seconds.
	DurationS float64 `json:"duration_s"`
	// Measured requests that started, per second of it.
	Rate float64 `json:"rate"`
	// Completed requests per second of it.
	RequestThroughput float64 `json:"request_throughput"`
	// Output tokens of completed requests per second of it.
	OutputTokenThroughput float64 `json:"output_token_throughput"`
}

// Reasoning counts output tokens that were reasoning, of completed requests.
type Reasoning struct {
	// Reasoning tokens.
	Tokens uint64 `json:"tokens"`
	// Those of them that were not streamed: usage tells of them, and no frame has any.
	Hidden uint64 `json:"hidden"`
	// Reasoning tokens of a request, of requests that had some.
	PerRequest *Distribution `json:"per_request"`
}

// VLLM are a stage's numbers in the definitions of vLLM's benchmark (vllm bench serve). Its client takes the time of
// each frame with choices, a chunk, whether a token comes with it or not. Percentiles are interpolated as numpy's.
type VLLM struct {
	// First chunk - start.
	TTFT *VLLMMetric `json:"ttft_ms"`
	// (Last - first chunk) / (output tokens - 1), of requests with 2 tokens or more.
	TPOT *VLLMMetric `json:"tpot_ms"`
	// Gaps between consecutive chunks.
	ITL *VLLMMetric `json:"itl_ms"`
	// Last chunk - start.
	E2EL *VLLMMetric `json:"e2el_ms"`
	// Most chunks of completed requests in one window of 1 s, which it calls tokens. Null: there is no window.
	PeakOutputTokenThroughput *float64 `json:"peak_output_token_throughput"`
	// Most requests that were in flight at some time of one window of 1 s, be it one after the other. Null: there is no
	// window.
	PeakConcurrentRequests *uint64 `json:"peak_concurrent_requests"`
}

// VLLMMetric sums up one metric as vLLM's benchmark does.
type VLLMMetric struct {
	// Arithmetic mean.
	Mean float64 `json:"mean"`
	// Median.
	Median float64 `json:"median"`
	// Standard deviation of the population.
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

// Requests counts requests.
type Requests struct {
	// Measured requests of the plan. Null: the stage ends by time.
	Planned *uint64 `json:"planned"`
	// Measured requests that started.
	Started uint64 `json:"started"`
	// Of which ended as they should.
	Completed uint64 `json:"completed"`
	// Of which failed.
	Failed uint64 `json:"failed"`
	// Of which were cut off by a stop or the end of the drain.
	Cancelled uint64 `json:"cancelled"`
	// Measured requests that were owed and never sent. Null: an agent's totals are missing, or others took its part
	// over.
	NeverSent *uint64 `json:"never_sent"`
	// Requests of warm-up and cool-down that started, which nothing else here counts.
	Unmeasured uint64 `json:"unmeasured"`
}

// Probe is a stage's place in a sweep or a search.
type Probe struct {
	// Number of the sweep or search in the run.
	Series uint32 `json:"series"`
	// Number of the stage in it, from 0.
	Number uint32 `json:"number"`
	// What it was for: "synchronous", "saturated", "rate", "bracket", "bisect", "repeat" or "again".
	Purpose string `json:"purpose"`
}

// Goodput counts requests that kept each part of the SLO.
type Goodput struct {
	// Longest TTFT. Null: not asked for.
	TTFTMs *float64 `json:"ttft_ms"`
	// Longest TPOT. Null: not asked for.
	TPOTMs *float64 `json:"tpot_ms"`
	// Longest E2E. Null: not asked for.
	E2EMs *float64 `json:"e2e_ms"`
	// Completed requests that kept all of it.
	Requests uint64 `json:"requests"`
	// The same per second of duration_s.
	RequestThroughput *float64 `json:"request_throughput"`
	// Share of them in the completed and failed ones. Null: of none.
	Share *float64 `json:"share"`
}

// PrefixCache compares the prompt tokens that requests had in common with those that a cache spared the server.
type PrefixCache struct {
	// Share of the input tokens that an earlier request of the stage began with too, by the workload's own account.
	// Null: input tokens are not known.
	SharedShare *float64 `json:"shared_share"`
	// Share of the input tokens that the server took from its cache. Null: its usage does not tell.
	CachedShare *float64 `json:"cached_share"`
}

// Dataset is the rows of a workload's file.
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
	// Agents that found this.
	Agents int `json:"agents"`
	// How prompts got their length: "token_ids", "words", "server", "usage", "file", or "own" where the workload gives
	// the text.
	Lengths string `json:"lengths"`
	// Tokens that the server adds to a prompt. Null: not known.
	TemplateTokens *uint32 `json:"template_tokens"`
	// Requests asked the server for exactly the output length.
	ExactOutput bool `json:"exact_output"`
	// How that was found out: "plan", "known" or "tried". Null: it was not.
	ExactOutputBy *string `json:"exact_output_by"`
	// Frames had the usage so far, as requests asked for.
	RunningUsage bool `json:"running_usage"`
	// Requests that were sent to find this out.
	Requests uint32 `json:"requests"`
	// Longest prompt and output together that the server takes, in tokens. Null: it does not tell.
	MaxModelTokens *uint32 `json:"max_model_tokens"`
	// The server's software. Empty: it does not tell.
	Server string `json:"server"`
	// What a person should know.
	Notes []string `json:"notes"`
}

// PeakConcurrency is the most requests in flight at once.
type PeakConcurrency struct {
	// Requests in flight.
	Requests uint64 `json:"requests"`
	// The number is exact. Else it is the sum of several agents' peaks in one window: the most that can have been.
	Exact bool `json:"exact"`
}

// Steady is the part of a stage in which every agent's load was up, in whole windows of 1 s.
type Steady struct {
	// Begin, in seconds since the stage's start.
	FromS float64 `json:"from_s"`
	// End, in seconds since the stage's start.
	ToS float64 `json:"to_s"`
	// Length in seconds.
	DurationS float64 `json:"duration_s"`
	// Requests done in it per second: a completed request that was under way in it for a part of its time counts as
	// that part.
	RequestThroughput float64 `json:"request_throughput"`
	// Output tokens that arrived in it per second. Null: the server tells tokens of none or of some requests only.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
}

// SequenceLength compares lengths asked for with lengths that came.
type SequenceLength struct {
	// Length that the workload asked for. Null: it has no single one.
	Asked *uint32 `json:"asked"`
	// Lengths seen: prompts by the server's usage, outputs by usage or frames.
	Seen *Distribution `json:"seen"`
	// Completed requests with another length than asked.
	Missed uint64 `json:"missed"`
	// Share of them in those whose length is known. Null: of none.
	MissedShare *float64 `json:"missed_share"`
}

// Streams counts what was seen on the connections.
type Streams struct {
	// Connections opened.
	Connections uint64 `json:"connections"`
	// Frames that arrived and may carry a token, whatever became of their requests.
	Frames uint64 `json:"frames"`
	// Tokens of these frames by the server's running usage. Null: it does not tell those of all of them.
	TokensArrived *uint64 `json:"tokens_arrived"`
	// Frames that carried a token, of completed requests.
	TokenFrames uint64 `json:"token_frames"`
	// Bytes of text in them, as JSON writes it.
	TextBytes uint64 `json:"text_bytes"`
	// Reads that held several frames of one stream: all but the last have a time that is too late.
	CoalescedReads uint64 `json:"coalesced_reads"`
	// Frames timed by the program's clock for want of the kernel's.
	UnstampedFrames uint64 `json:"unstamped_frames"`
	// Completed requests that were answered by one body, though a stream was asked for.
	WholeAnswers uint64 `json:"whole_answers"`
	// Completed streams of several tokens that came in one frame.
	InOneFrame uint64 `json:"in_one_frame"`
	// Completed streams of several frames that all came in one read.
	InOneRead uint64 `json:"in_one_read"`
	// Completed streams with frames without text of which nothing tells whether they carried a token.
	Undecided uint64 `json:"undecided"`
}

// Latency is the short form of a distribution.
type Latency struct {
	// Number of values.
	Count uint64 `json:"count"`
	// Arithmetic mean.
	Mean float64 `json:"mean"`
	// Median.
	P50 float64 `json:"p50"`
	// 90th percentile.
	P90 float64 `json:"p90"`
	// 99th percentile.
	P99 float64 `json:"p99"`
}

// Breakdown is what one endpoint or agent contributed.
type Breakdown struct {
	// Requests counted.
	Requests PartRequests `json:"requests"`
	// Prompt tokens of completed requests by the server's usage. Null: some had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Output tokens of completed requests.
	OutputTokens uint64 `json:"output_tokens"`
	// First token - start.
	TTFT *Latency `json:"ttft_ms"`
	// (Last - first token) / (output tokens - 1).
	TPOT *Latency `json:"tpot_ms"`
	// Last token - start.
	E2E *Latency `json:"e2e_ms"`
	// Failed requests by class.
	Errors map[string]uint64 `json:"errors"`
}

// PartRequests counts the requests of a part.
type PartRequests struct {
	// Measured requests that started.
	Started uint64 `json:"started"`
	// Of which ended as they should.
	Completed uint64 `json:"completed"`
	// Of which failed.
	Failed uint64 `json:"failed"`
	// Of which were cut off by a stop or the end of the drain.
	Cancelled uint64 `json:"cancelled"`
}

// EndpointResult is what was measured at one endpoint.
type EndpointResult struct {
	// Base URL, without a password.
	URL string `json:"url"`
	Breakdown
}

// RegionResult is what was measured from one region.
type RegionResult struct {
	// Name of the region. Empty: that of agents that said none.
	Name string `json:"name"`
	// Agents there.
	Agents int `json:"agents"`
	Contribution
}

// ObserverResult is what the observer of one region measured.
type ObserverResult struct {
	// Name of the region. Empty: that of agents that said none.
	Region string `json:"region"`
	// Names of the agents that were its observer, as a rule one.
	Agents []string `json:"agents"`
	// The light load that it sent, in words.
	Load string `json:"load"`
	// What is missing of its measurements, in words. It makes no stage incomplete.
	Missing []string `json:"missing"`
	// From its first measured start to its last measured end, in seconds.
	DurationS *float64 `json:"duration_s"`
	Contribution
}

// Contribution is what the agents of one region measured together.
type Contribution struct {
	// Requests counted.
	Requests PartRequests `json:"requests"`
	// Prompt tokens of completed requests by the server's usage. Null: some had no usage.
	InputTokens *uint64 `json:"input_tokens"`
	// Output tokens of completed requests.
	OutputTokens uint64 `json:"output_tokens"`
	// Completed requests per second of duration_s, for a region the stage's.
	RequestThroughput *float64 `json:"request_throughput"`
	// Output tokens of completed requests per second of duration_s.
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	// Input and output tokens of completed requests per second of duration_s.
	TotalTokenThroughput *float64 `json:"total_token_throughput"`
	Latencies
	// Failed requests by class.
	Errors map[string]uint64 `json:"errors"`
	// Connections to each endpoint, in the order of the target's.
	Paths []PathResult `json:"paths"`
}

// PathResult is what was measured of the way from a region to an endpoint.
type PathResult struct {
	// Base URL of the endpoint, without a password.
	URL string `json:"url"`
	// DNS, TCP and TLS, of completed requests that opened a connection.
	Connect *Distribution `json:"connect_ms"`
	// Round trip by the kernel's measure, once a connection.
	RTT *Distribution `json:"rtt_ms"`
}

// AgentResult is what one agent measured.
type AgentResult struct {
	// Name of the agent.
	Name string `json:"name"`
	// Its region.
	Region string `json:"region"`
	// Its weight in the split.
	Weight uint32 `json:"weight"`
	// Why its part is missing or cut short. Null: it is not.
	Failure *string `json:"failure"`
	// When it joined the stage, in seconds since the stage's start. Null: it was there from the start.
	JoinedS *float64 `json:"joined_s"`
	// What was lost with it. Null: it was not lost.
	Loss *Loss `json:"loss"`
	// Start of its load - armed start, in milliseconds. Null: its totals are missing, or it joined later.
	StartErrorMs *float64 `json:"start_error_ms"`
	// Uncertainty of its clock against the coordinator's at the start, in milliseconds. Null: its totals are missing.
	ClockUncertaintyMs *float64 `json:"clock_uncertainty_ms"`
	// Measured requests that it owed and never sent. Null: its totals are missing.
	NeverSent *uint64 `json:"never_sent"`
	Breakdown
}

// Loss is what a lost agent leaves out of the result.
type Loss struct {
	// Its part of the load while it had one, from 0 to 1.
	Share float64 `json:"share"`
	// Second of the stage from which on nothing of it is in the result.
	FromS float64 `json:"from_s"`
	// Second to which its part is missing: in which others took it over, or the stage's last. Null: not known.
	ToS *float64 `json:"to_s"`
	// Others took its part over.
	TakenOver bool `json:"taken_over"`
	// Second of the stage from which on requests were due that it never sent, if that is before from_s: its process
	// stood still. They are in its never_sent. Null: there were none, or it is not known.
	UnsentFromS *float64 `json:"unsent_from_s"`
}
