package judge

// Results is results.json, as far as it is judged. Fields have the names of docs/results.md.
type Results struct {
	Run    Run     `json:"run"`
	Stages []Stage `json:"stages"`
}

// Run is what a result says about its run.
type Run struct {
	ID            string   `json:"id"`
	Plan          *string  `json:"plan"`
	Seed          *uint64  `json:"seed"`
	Outcome       *string  `json:"outcome"`
	Reason        *string  `json:"reason"`
	StagesPlanned int      `json:"stages_planned"`
	Restarts      int      `json:"restarts"`
	Complete      bool     `json:"complete"`
	Missing       []string `json:"missing"`
}

// Stage is what a result says about a stage.
type Stage struct {
	Index     uint32   `json:"index"`
	Target    string   `json:"target"`
	Load      Load     `json:"load"`
	StartTime *string  `json:"start_time"`
	Complete  bool     `json:"complete"`
	Missing   []string `json:"missing"`
	Requests  struct {
		Counts
		Planned    *uint64 `json:"planned"`
		Unmeasured uint64  `json:"unmeasured"`
		NeverSent  *uint64 `json:"never_sent"`
	} `json:"requests"`
	DurationS             *float64 `json:"duration_s"`
	RequestThroughput     *float64 `json:"request_throughput"`
	OutputTokenThroughput *float64 `json:"output_token_throughput"`
	InputTokens           *uint64  `json:"input_tokens"`
	OutputTokens          uint64   `json:"output_tokens"`
	Times
	Errors         map[string]uint64 `json:"errors"`
	Endpoints      []Part            `json:"endpoints"`
	Agents         []Agent           `json:"agents"`
	Regions        []Region          `json:"regions"`
	DroppedRecords uint64            `json:"dropped_records"`
}

// Load is a load point.
type Load struct {
	Concurrency *int     `json:"concurrency"`
	Rate        *float64 `json:"rate"`
	Arrival     *string  `json:"arrival"`
	Requests    *uint64  `json:"requests"`
	DurationS   *float64 `json:"duration_s"`
}

// Counts are numbers of measured requests.
type Counts struct {
	Started   uint64 `json:"started"`
	Completed uint64 `json:"completed"`
	Failed    uint64 `json:"failed"`
	Cancelled uint64 `json:"cancelled"`
}

// Times are distributions of times, each in milliseconds.
type Times struct {
	TTFT          *Distribution `json:"ttft_ms"`
	TPOT          *Distribution `json:"tpot_ms"`
	ITL           *Distribution `json:"itl_ms"`
	E2E           *Distribution `json:"e2e_ms"`
	TTFTScheduled *Distribution `json:"ttft_scheduled_ms"`
	E2EScheduled  *Distribution `json:"e2e_scheduled_ms"`
	SendDelay     *Distribution `json:"send_delay_ms"`
}

// Distribution summarizes values. A short one lacks the fields that are pointers.
type Distribution struct {
	Count uint64   `json:"count"`
	Mean  float64  `json:"mean"`
	P50   float64  `json:"p50"`
	P90   float64  `json:"p90"`
	P99   float64  `json:"p99"`
	Std   *float64 `json:"std"`
	Min   *float64 `json:"min"`
	Max   *float64 `json:"max"`
	P95   *float64 `json:"p95"`
	P999  *float64 `json:"p99_9"`
}

// Part is what one endpoint or agent contributed.
type Part struct {
	Requests     Counts            `json:"requests"`
	OutputTokens uint64            `json:"output_tokens"`
	TTFT         *Distribution     `json:"ttft_ms"`
	TPOT         *Distribution     `json:"tpot_ms"`
	E2E          *Distribution     `json:"e2e_ms"`
	Errors       map[string]uint64 `json:"errors"`
}

// Region is what the agents of a region contributed.
type Region struct {
	Name string `json:"name"`
	Part
}

// Agent is what an agent contributed, and what it lacks.
type Agent struct {
	Name      string   `json:"name"`
	Region    string   `json:"region"`
	Weight    uint32   `json:"weight"`
	Failure   *string  `json:"failure"`
	JoinedS   *float64 `json:"joined_s"`
	Loss      *Loss    `json:"loss"`
	NeverSent *uint64  `json:"never_sent"`
	// ClockUncertaintyMS is how far its clock may have been off at the start. nil: not known.
	ClockUncertaintyMS *float64 `json:"clock_uncertainty_ms"`
	Part
}

// Loss is what the result lacks because of a lost agent.
type Loss struct {
	Share     float64  `json:"share"`
	FromS     float64  `json:"from_s"`
	ToS       *float64 `json:"to_s"`
	TakenOver bool     `json:"taken_over"`
	// UnsentFromS is the second, before FromS, from which requests were due that the agent never sent. nil: there were
	// none.
	UnsentFromS *float64 `json:"unsent_from_s"`
}
