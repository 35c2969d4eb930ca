package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ServerAccount holds the servers' own histograms of a stage against what clients measured of it, and shows where the
// time to the first token went. All times are in milliseconds.
type ServerAccount struct {
	// Software whose histograms are compared: "vllm", "sglang", "tensorrt_llm", "tgi" or "dynamo".
	Server string `json:"server"`
	// Requests that both sides counted.
	Requests AccountRequests `json:"requests"`
	// The servers counted the requests of this stage, and besides no more than a tenth that were not measured. Where
	// false, nothing is subtracted.
	Comparable bool `json:"comparable"`
	// Why the sides cannot be compared, or what else they differ by. Empty: they counted the same requests.
	Note string `json:"note"`
	// Time to first token. Null: the servers have no histogram of it, or neither side has a value. So are the others.
	TTFT *Comparison `json:"ttft_ms"`
	// Gaps between frames, and between the engine's steps for a request.
	ITL *Comparison `json:"itl_ms"`
	// Time per output token, of each request.
	TPOT *Comparison `json:"tpot_ms"`
	// End to end.
	E2E *Comparison `json:"e2e_ms"`
	// Where the time of a request goes, in the mean.
	Parts AccountParts `json:"parts_ms"`
	// Share of the prompts' tokens that the servers took from their prefix caches, by their counters. Null: they do not
	// tell, or the sides cannot be compared.
	CachedShare *float64 `json:"cached_share"`
	// The difference in one sentence.
	Summary string `json:"summary"`
}

// AccountRequests counts requests on both sides.
type AccountRequests struct {
	// Measured requests that completed.
	Measured uint64 `json:"measured"`
	// Requests that were sent at all in the stage: failed ones, those of a warm-up and of observers too.
	Sent uint64 `json:"sent"`
	// Requests that the servers counted from from_s to to_s of servers[].
	Counted uint64 `json:"counted"`
}

// Comparison is one latency on both sides.
type Comparison struct {
	// By the clients.
	Client Latency `json:"client"`
	// By the servers.
	Server ServerLatency `json:"server"`
	// Client - server. Null: the sides cannot be compared.
	Difference *LatencyDifference `json:"difference"`
}

// ServerLatency is a latency by the servers' histograms.
type ServerLatency struct {
	// Number of values.
	Count uint64 `json:"count"`
	// Mean, from their exact sum.
	Mean float64 `json:"mean"`
	// Median. Null: the buckets are not known.
	P50 *ServerQuantile `json:"p50"`
	// 99th percentile.
	P99 *ServerQuantile `json:"p99"`
}

// LatencyDifference is how much later clients saw something.
type LatencyDifference struct {
	// Of the means, exact.
	Mean float64 `json:"mean"`
	// Of the medians: between these bounds, as the server's lies anywhere within its bucket. Null: the buckets are not
	// known.
	P50 *Bounds `json:"p50"`
	// Of the 99th percentiles.
	P99 *Bounds `json:"p99"`
}

// Bounds are what a number lies between.
type Bounds struct {
	// Null: there is no lower bound.
	Low *float64 `json:"low"`
	// Null: there is no upper bound.
	High *float64 `json:"high"`
}

// AccountParts are the parts of a request's time, each the mean over all requests. connect, network, frontend, router,
// engine, queue and prefill add up to the clients' TTFT. Null: not known.
type AccountParts struct {
	// From when the plan wanted a request to start until the client turned to it: before the TTFT.
	SendDelay *float64 `json:"send_delay"`
	// From the kernel's receipt of a frame until the client read it: in no time, as frames have the kernel's.
	ReceiveLag *float64 `json:"receive_lag"`
	// DNS, TCP and TLS of the requests that opened a connection, shared out over all.
	Connect *float64 `json:"connect"`
	// One round trip, by the kernel's measure when connections were opened.
	Network *float64 `json:"network"`
	// What is left of the clients' TTFT beyond the servers' own: HTTP, a gateway, queues before the server's clock
	// starts, and of the network what goes beyond a round trip.
	Frontend *float64 `json:"frontend"`
	// Dynamo: the frontend's TTFT beyond that of the engines behind it.
	Router *float64 `json:"router"`
	// The engine's TTFT beyond queue and prefill: tokenizing, and messages between its processes.
	Engine *float64 `json:"engine"`
	// Waiting to be scheduled, by the engine.
	Queue *float64 `json:"queue"`
	// From being scheduled to the first token, by the engine.
	Prefill *float64 `json:"prefill"`
	// From the first to the last token, by the engine: behind the TTFT.
	Decode *float64 `json:"decode"`
}

// clientSide is what clients measured of a stage, in milliseconds.
type clientSide struct {
	measured, sent                                            uint64
	ttft, itl, tpot, e2e, sendDelay, receiveLag, connect, rtt *Distribution
}

// compareAccounts holds the accounts of a stage's servers against what clients measured, nil if no account is there. It
// is pure.
func compareAccounts(c clientSide, accounts []*spatev1.ServerAccount) *ServerAccount {
	sum := sumAccounts(accounts)
	sides := sum.sides(c)
	if len(sides) == 0 {
		return nil
	}
	near, engine := sides[0], sides[0]
	if near.gateway && len(sides) > 1 &&
		sides[1].why == "" { // else each request goes through several engines, or not all of them were read
		engine = sides[1]
	}
	a := &ServerAccount{
		Server: near.name, Comparable: near.why == "", Note: cmp.Or(near.why, near.note),
		Requests: AccountRequests{Measured: c.measured, Sent: c.sent, Counted: near.counted},
		TTFT:     near.compare(c.ttft, near.ttft), ITL: near.compare(c.itl, near.itl),
		TPOT: near.compare(c.tpot, near.tpot), E2E: near.compare(c.e2e, near.e2e),
		CachedShare: near.cachedShare(),
	}
	if a.CachedShare == nil {
		a.CachedShare = engine.cachedShare()
	}
	a.Parts = accountParts(c, near, engine)
	a.Summary = a.summary(near.title)
	return a
}

// inMs turns a quantile in seconds into one in milliseconds.
func inMs(q *ServerQuantile) *ServerQuantile {
	if q == nil {
		return nil
	}
	scaled := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		ms := msPerSecond * *v
		return &ms
	}
	return &ServerQuantile{Value: scaled(q.Value), Low: scaled(q.Low), High: scaled(q.High)}
}

// beyond is what a percentile is beyond one that is known by its bucket.
func beyond(client float64, server *ServerQuantile) *Bounds {
	if server == nil {
		return nil
	}
	minus := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		difference := client - *v
		return &difference
	}
	return &Bounds{Low: minus(server.High), High: minus(server.Low)}
}

// accountParts shows where the time of a request goes, as far as it is known.
func accountParts(c clientSide, near, engine side) AccountParts {
	p := AccountParts{SendDelay: meanOf(c.sendDelay), ReceiveLag: meanOf(c.receiveLag), Network: meanOf(c.rtt),
		Connect: connectOf(c)}
	if engine.why == "" {
		p.Queue, p.Prefill, p.Decode = engine.mean(engine.queue), engine.mean(engine.prefill),
			engine.mean(engine.decode)
		p.Engine = minus(engine.mean(engine.ttft), p.Queue, p.Prefill)
	}
	if near.why != "" {
		return p
	}
	p.Frontend = minus(meanOf(c.ttft), near.mean(near.ttft), p.Connect, p.Network)
	if near.name != engine.name && engine.why == "" {
		p.Router = minus(near.mean(near.ttft), engine.mean(engine.ttft))
	}
	return p
}

// meanOf is the mean of a distribution, nil of none.
func meanOf(d *Distribution) *float64 {
	if d == nil {
		return nil
	}
	return &d.Mean
}

// connectOf is the time to connect, shared out over all requests: 0 if none opened a connection.
func connectOf(c clientSide) *float64 {
	if c.ttft == nil {
		return nil
	}
	share := 0.0
	if c.connect != nil {
		share = c.connect.Mean * float64(c.connect.Count) / float64(c.ttft.Count)
	}
	return &share
}

// minus subtracts from a number, nil if one of them is not known.
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

// What clients may be later by than the server's own account for what the wire takes: a millisecond and a two
// hundredth.
const (
	wireMs    = 1
	wireShare = 0.005
)

// summary says in a sentence how much later clients saw the first token, or the last one where servers do not tell of
// the first, and why.
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

// cause says what makes the larger part of what clients are later by.
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

// serverAccount is the servers' own account of the stage so far beside the clients'. The caller holds the lock.
func (s *Stage) serverAccount() *ServerAccount {
	if len(s.servers.accounts) == 0 {
		return nil
	}
	sent := s.total.counters.GetStarted() + s.total.counters.GetUnmeasuredStarted()
	for _, o := range s.observers {
		sent += o.totals.GetCounters().GetStarted()
	}
	of := s.total.distribution
	c := clientSide{
		measured: s.total.counters.GetCompleted(), sent: sent,
		ttft: of(spatev1.Metric_METRIC_TTFT), itl: of(spatev1.Metric_METRIC_ITL), tpot: of(spatev1.Metric_METRIC_TPOT),
		e2e:       of(spatev1.Metric_METRIC_E2E),
		sendDelay: of(spatev1.Metric_METRIC_SEND_DELAY), receiveLag: of(spatev1.Metric_METRIC_RECEIVE_LAG),
		connect: of(spatev1.Metric_METRIC_CONNECT), rtt: of(spatev1.Metric_METRIC_RTT),
	}
	var accounts []*spatev1.ServerAccount
	for source := range s.servers.accounts {
		accounts = append(accounts, s.servers.accounts[source])
	}
	// sums of fractions have an order
	slices.SortFunc(accounts,
		func(a, b *spatev1.ServerAccount) int { return cmp.Compare(a.GetSource(), b.GetSource()) })
	return compareAccounts(c, accounts)
}
