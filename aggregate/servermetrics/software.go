package servermetrics

import (
	"cmp"
	_ "embed" // the tables of names
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// software is one kind of server.
type software struct {
	name, title string
	gateway     bool                // it is in front of engines that may have metrics, too
	metrics     map[string][]string // names by what they measure: "ttft", "requests"
}

// softwareTable has all kinds, and which names their metrics have.
//
//go:embed software.txt
var softwareTable string

// softwares are in the order in which they are looked for: the one nearest to the client first.
var softwares = func() (all []software) {
	for row := range tableRows(softwareTable) {
		if row[0] == "gateway" || row[0] == "engine" {
			all = append(all, software{row[1], strings.Join(row[2:], " "), row[0] == "gateway", map[string][]string{}})
			continue
		}
		all[len(all)-1].metrics[row[0]] = row[1:]
	}
	return all
}()

// named returns the names that all kinds have for what a metric measures.
func named(what string) []string {
	return slices.Concat(lists.Each(softwares, func(s software) []string { return s.metrics[what] })...)
}

// tableRows yields the words of each row of an embedded table. Lines that begin with # are comments.
func tableRows(table string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(table) {
			if row := strings.Fields(line); len(row) > 0 && row[0] != "#" && !yield(row) {
				return
			}
		}
	}
}

// accountSum is the sum of the growth of all servers of a stage. Adding is right if each request is counted by one
// server of a kind. If several count it, the number of requests shows that.
type accountSum struct {
	counters   map[string]float64
	histograms map[string]*spatev1.ServerHistogram
	restarted  bool
}

// sumAccounts adds accounts. Histograms whose buckets differ lose their buckets.
func sumAccounts(accounts []*spatev1.ServerAccount) accountSum {
	sum := accountSum{counters: map[string]float64{}, histograms: map[string]*spatev1.ServerHistogram{}}
	for _, a := range accounts {
		sum.restarted = sum.restarted || a.GetRestarted()
		for _, c := range a.GetCounters() {
			sum.counters[strings.TrimSuffix(c.GetName(), "_total")] += c.GetIncrease()
		}
		for _, h := range a.GetHistograms() {
			sum.histograms[h.GetName()] = servermetrics.Added(sum.histograms[h.GetName()], h)
		}
	}
	return sum
}

// sides returns the kinds of servers that counted requests, the one nearest to the client first. If none counted any,
// it returns the kinds that have metrics of requests.
func (s accountSum) sides(c Client) []side {
	all := lists.Each(softwares, func(kind software) side { return s.of(kind, c) })
	told := lists.Where(all, func(d side) bool { return d.told })
	if counted := lists.Where(told, func(d side) bool { return d.counted > 0 }); len(counted) > 0 {
		return counted
	}
	return told
}

// side holds what servers of one kind counted.
type side struct {
	software
	accountSum
	told    bool
	counted uint64
	why     string // why it cannot be compared; empty: it can be
	note    string // what else the servers counted
}

// of returns what servers of a kind counted.
func (s accountSum) of(kind software, c Client) side {
	d := side{software: kind, accountSum: s}
	for _, what := range [...]string{"e2e", "ttft"} {
		if h := d.pick(what); h != nil && !d.told {
			d.counted, d.told = h.GetCount(), true
		}
	}
	if n, ok := d.counter("requests"); ok && !d.told {
		d.counted, d.told = uint64(math.Round(max(n, 0))), true
	}
	d.why, d.note = d.judge(c)
	return d
}

// judge returns why a side cannot be compared with what clients measured, or which other requests it counted.
func (d side) judge(c Client) (why, note string) {
	switch {
	case d.counted < c.Measured && d.restarted:
		return fmt.Sprintf("a server was restarted: its counters have %d of the %d requests measured", d.counted,
			c.Measured), ""
	case d.counted < c.Measured:
		return fmt.Sprintf("the servers that were read counted %d of the %d requests measured: others served the rest, or did not answer when they "+
			"were read; name all of them by server_metrics.urls", d.counted, c.Measured), ""
	case d.counted > c.Sent:
		return fmt.Sprintf("the servers counted %d requests, and this stage sent %d: others use them too, or each request goes through several of them",
			d.counted, c.Sent), ""
	case d.counted > c.Measured:
		more := fmt.Sprintf("the servers counted %d requests beside the %d measured: those of a warm-up that were in flight at its end, of a cool-down, canaries, "+
			"and failed ones", d.counted-c.Measured, c.Measured)
		if float64(d.counted-c.Measured) > blur*float64(c.Measured) {
			return more + "; make the measured part longer", ""
		}
		return "", more
	}
	return "", ""
}

// blur is the largest number of other requests that servers may count, as a share of the measured ones, for the means
// of the two sides to be compared. With a tenth, other requests that are slower by a tenth move the mean by a
// hundredth, which is the size of the differences of interest.
const blur = 0.1

// pick returns the first histogram of what is measured that counted something, otherwise the first that exists, or nil
// if none exists.
func (d side) pick(what string) (found *spatev1.ServerHistogram) {
	for _, name := range d.metrics[what] {
		h := d.histograms[name]
		if h.GetCount() > 0 {
			return h
		}
		found = cmp.Or(found, h)
	}
	return found
}

// counter returns the first counter of what is counted that exists.
func (d side) counter(what string) (float64, bool) {
	for _, name := range d.metrics[what] {
		if n, ok := d.counters[strings.TrimSuffix(name, "_total")]; ok {
			return n, true
		}
	}
	return 0, false
}

// cachedShare returns the share of prompt tokens that came from prefix caches, or nil if it is not known for the
// stage's requests.
func (d side) cachedShare() *float64 {
	if d.why != "" {
		return nil
	}
	cached, prompts := d.pick("cached_per_request"), d.pick("prompts_per_request")
	if cached.GetCount() > 0 && cached.GetCount() == prompts.GetCount() && prompts.GetSum() > 0 {
		return new(cached.GetSum() / prompts.GetSum())
	}
	hits, told := d.counter("cached")
	if queries, ok := d.counter("prompts"); ok && queries > 0 &&
		(told || d.name == "sglang") { // SGLang's counter does not exist before the first hit
		return new(hits / queries)
	}
	return nil
}

const msPerSecond = 1000

// compare compares a latency of clients with a histogram of servers. It returns nil if one of them has no values.
func (d side) compare(client *histogram.Summary, what string) *Comparison {
	h := d.pick(what)
	if client == nil || h.GetCount() == 0 {
		return nil
	}
	c := &Comparison{
		Client: *client.Short(),
		Server: ServerLatency{
			Count: h.GetCount(), Mean: msPerSecond * h.GetSum() / float64(h.GetCount()),
			P50: inMs(bucketQuantile(h, 0.5)), P99: inMs(bucketQuantile(h, 0.99)),
		},
	}
	if d.why == "" {
		c.Difference = &LatencyDifference{
			Mean: client.Mean - c.Server.Mean, P50: beyond(client.P50, c.Server.P50),
			P99: beyond(client.P99, c.Server.P99),
		}
	}
	return c
}

// mean returns the mean of a histogram in milliseconds, or nil if it has no values.
func (d side) mean(what string) *float64 {
	h := d.pick(what)
	if h.GetCount() == 0 {
		return nil
	}
	return new(msPerSecond * h.GetSum() / float64(h.GetCount()))
}
