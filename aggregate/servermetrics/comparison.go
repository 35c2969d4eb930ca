package servermetrics

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ServerAccount compares the servers' own histograms of a stage with what the agents, the servers' clients, measured,
// and shows where the time to the first token went. All times are in milliseconds.
type ServerAccount struct {
	// Software whose histograms are compared: "vllm", "sglang", "tensorrt_llm", "tgi" or "dynamo".
	Server string `json:"server"`
	// Requests as each side counted them.
	Requests AccountRequests `json:"requests"`
	// True if the servers counted all measured requests of this stage, and at most a tenth more. If false, no
	// differences are calculated.
	Comparable bool `json:"comparable"`
	// Why the two sides cannot be compared, or which other requests the servers counted. Empty: both counted the same
	// requests.
	Note string `json:"note"`
	// Time to first token. Null: the servers have no histogram of it, or one side has no value. The same holds for
	// itl_ms, tpot_ms and e2e_ms.
	TTFT *Comparison `json:"ttft_ms"`
	// Gaps between frames for the clients; gaps between the engine's steps of a request for the servers.
	ITL *Comparison `json:"itl_ms"`
	// Time per output token, one value per request.
	TPOT *Comparison `json:"tpot_ms"`
	// End-to-end latency.
	E2E *Comparison `json:"e2e_ms"`
	// Where the time of a request goes, on average.
	Parts AccountParts `json:"parts_ms"`
	// Share of the prompt tokens that the servers took from their prefix caches, by their own metrics. Null: the
	// servers do not report it, or the two sides cannot be compared.
	CachedShare *float64 `json:"cached_share"`
	// Difference between the two sides in one sentence.
	Summary string `json:"summary"`
}

// AccountRequests counts requests on both sides.
type AccountRequests struct {
	// Measured requests that completed.
	Measured uint64 `json:"measured"`
	// All requests that were sent in the stage, including failed ones and those of a warm-up.
	Sent uint64 `json:"sent"`
	// Requests that the servers counted from from_s to to_s of servers[].
	Counted uint64 `json:"counted"`
}

// Comparison is one latency as clients and servers measured it.
type Comparison struct {
	// As the clients measured it.
	Client histogram.ShortSummary `json:"client"`
	// As the servers measured it.
	Server ServerLatency `json:"server"`
	// Client - server. Null: the two sides cannot be compared.
	Difference *LatencyDifference `json:"difference"`
}

// ServerLatency is a latency from the servers' histograms.
type ServerLatency struct {
	// Number of values.
	Count uint64 `json:"count"`
	// Mean, from the exact sum of the values.
	Mean float64 `json:"mean"`
	// Median. Null: the buckets are not known.
	P50 *ServerQuantile `json:"p50"`
	// 99th percentile.
	P99 *ServerQuantile `json:"p99"`
}

// LatencyDifference is how much later clients saw an event than servers.
type LatencyDifference struct {
	// Difference of the means, exact.
	Mean float64 `json:"mean"`
	// Bounds of the difference of the medians: the server's median may be anywhere within its bucket. Null: the buckets
	// are not known.
	P50 *Bounds `json:"p50"`
	// Bounds of the difference of the 99th percentiles.
	P99 *Bounds `json:"p99"`
}

// Bounds are the two numbers that a value is between.
type Bounds struct {
	// Lower bound. Null: there is none.
	Low *float64 `json:"low"`
	// Upper bound. Null: there is none.
	High *float64 `json:"high"`
}

// AccountParts are the parts of a request's time, each as a mean over all requests. connect, network, frontend, router,
// engine, queue and prefill add up to the clients' TTFT. Null: not known.
type AccountParts struct {
	// From the scheduled start of a request until the client started it. This time is before the TTFT.
	SendDelay *float64 `json:"send_delay"`
	// From the kernel's receipt of a frame until the client read it. No other time contains this lag, because frames
	// are timed by the kernel.
	ReceiveLag *float64 `json:"receive_lag"`
	// Time for DNS, TCP and TLS of the requests that opened a connection, divided by the number of all requests.
	Connect *float64 `json:"connect"`
	// One network round trip, as the kernel measured it when connections were opened.
	Network *float64 `json:"network"`
	// What the clients' TTFT has beyond the servers' TTFT, connect and network: HTTP, a gateway, queues before the
	// server's clock starts, and network time beyond one round trip.
	Frontend *float64 `json:"frontend"`
	// Dynamo: TTFT of the frontend minus TTFT of the engines behind it.
	Router *float64 `json:"router"`
	// TTFT of the engine minus queue and prefill: tokenizing, and messages between the engine's processes.
	Engine *float64 `json:"engine"`
	// Time waiting to be scheduled, as the engine reports it.
	Queue *float64 `json:"queue"`
	// From being scheduled to the first token, as the engine reports it.
	Prefill *float64 `json:"prefill"`
	// From the first to the last token, as the engine reports it. This time is after the TTFT.
	Decode *float64 `json:"decode"`
}

// Client holds what clients measured in a stage, in milliseconds.
type Client struct {
	// Measured is the number of completed measured requests. Sent is the number of all requests, including failed ones
	// and those of a warm-up.
	Measured, Sent uint64
	// TTFT to RTT summarize metrics of the same names. Nil: no values.
	TTFT, ITL, TPOT, E2E, SendDelay, ReceiveLag, Connect, RTT *histogram.Summary
}

// Compare compares the accounts of the servers so far with what clients measured. It returns nil if no account has a
// known metric of requests.
func (v *Metrics) Compare(c Client) *ServerAccount {
	sources := slices.Sorted(maps.Keys(v.accounts)) // sums of floats depend on the order
	return compareAccounts(c, lists.Each(sources, func(of uint32) *spatev1.ServerAccount { return v.accounts[of] }))
}

// compareAccounts compares the accounts of a stage's servers with what clients measured. It returns nil if no account
// has a known metric of requests. compareAccounts is pure.
func compareAccounts(c Client, accounts []*spatev1.ServerAccount) *ServerAccount {
	sum := sumAccounts(accounts)
	sides := sum.sides(c)
	if len(sides) == 0 {
		return nil
	}
	near, engine := sides[0], sides[0]
	if near.gateway && len(sides) > 1 &&
		sides[1].why == "" { // otherwise each request goes through several engines, or not all engines were read
		engine = sides[1]
	}
	a := &ServerAccount{
		Server: near.name, Comparable: near.why == "", Note: cmp.Or(near.why, near.note),
		Requests: AccountRequests{Measured: c.Measured, Sent: c.Sent, Counted: near.counted},
		TTFT:     near.compare(c.TTFT, "ttft"), ITL: near.compare(c.ITL, "itl"),
		TPOT: near.compare(c.TPOT, "tpot"), E2E: near.compare(c.E2E, "e2e"),
		CachedShare: cmp.Or(near.cachedShare(), engine.cachedShare()),
	}
	a.Parts = accountParts(c, near, engine)
	a.Summary = a.summary(near.title)
	return a
}

// inMs converts a quantile from seconds to milliseconds.
func inMs(q *ServerQuantile) *ServerQuantile {
	if q == nil {
		return nil
	}
	scaled := *q
	for _, v := range []**float64{&scaled.Value, &scaled.Low, &scaled.High} {
		if *v != nil {
			*v = new(msPerSecond * **v)
		}
	}
	return &scaled
}

// beyond returns the bounds of client - server, where only the bucket of the server's percentile is known.
func beyond(client float64, server *ServerQuantile) *Bounds {
	if server == nil {
		return nil
	}
	return &Bounds{Low: minus(&client, server.High), High: minus(&client, server.Low)}
}

// mean returns the mean of a distribution. Nil: there is none.
var mean = histogram.MeanOf

// accountParts returns where the time of a request goes, as far as that is known.
func accountParts(c Client, near, engine side) AccountParts {
	p := AccountParts{SendDelay: mean(c.SendDelay), ReceiveLag: mean(c.ReceiveLag), Network: mean(c.RTT),
		Connect: connectOf(c)}
	if engine.why == "" {
		p.Queue, p.Prefill, p.Decode = engine.mean("queue"), engine.mean("prefill"), engine.mean("decode")
		p.Engine = minus(engine.mean("ttft"), p.Queue, p.Prefill)
	}
	if near.why != "" {
		return p
	}
	p.Frontend = minus(mean(c.TTFT), near.mean("ttft"), p.Connect, p.Network)
	if near.name != engine.name && engine.why == "" {
		p.Router = minus(near.mean("ttft"), engine.mean("ttft"))
	}
	return p
}

// connectOf returns the time to connect as a mean over all requests. It is 0 if none opened a connection.
func connectOf(c Client) *float64 {
	if c.TTFT == nil {
		return nil
	}
	share := 0.0
	if c.Connect != nil {
		share = c.Connect.Mean * float64(c.Connect.Count) / float64(c.TTFT.Count)
	}
	return &share
}

// minus returns from - others, or nil if any of them is not known.
func minus(from *float64, others ...*float64) *float64 {
	if from == nil || slices.Contains(others, nil) {
		return nil
	}
	left := *from
	for _, o := range others {
		left -= *o
	}
	return &left
}

// Tolerance for the time on the wire, by which clients may see an event later than the server: 1 ms plus 0.5 % of the
// server's latency.
const (
	wireMs    = 1
	wireShare = 0.005
)

// summary returns a sentence about how much later clients saw the first token, and why; or the last token, if the
// servers do not report the first.
func (a *ServerAccount) summary(title string) string {
	name, of := "TTFT", a.TTFT
	if of == nil {
		name, of = "E2E", a.E2E
	}
	if of == nil || of.Difference == nil {
		return ""
	}
	later := of.Difference.Mean
	lag := ""
	if a.Parts.ReceiveLag != nil {
		lag = fmt.Sprintf(", receive lag %.2f ms", *a.Parts.ReceiveLag)
	}
	switch {
	case math.Abs(later) <= wireMs+wireShare*of.Server.Mean:
		return fmt.Sprintf("%s within %.2f ms of %s's own account%s", name, math.Abs(later), title, lag)
	case later < 0:
		return fmt.Sprintf("%s %.2f ms earlier than %s's own account%s: the two count other requests, or %s starts its clock earlier",
			name, -later, title, lag, title)
	}
	return fmt.Sprintf("%s %.2f ms later than %s's own account%s: %s", name, later, title, lag, a.cause(later))
}

// cause returns what makes up more than half of the time by which clients are later.
func (a *ServerAccount) cause(later float64) string {
	most := func(part *float64) bool { return part != nil && *part > later/2 }
	switch p := a.Parts; {
	case most(p.ReceiveLag) || most(p.SendDelay):
		return "this client is behind; give it more cores or agents"
	case most(p.Connect):
		return fmt.Sprintf("opening connections takes %.2f ms of it", *p.Connect)
	case most(p.Network):
		return fmt.Sprintf("the network takes %.2f ms of it", *p.Network)
	default:
		return "the server's frontend or the network, not this client"
	}
}
