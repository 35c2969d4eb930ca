package compare

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/chance"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	nanosPerMs     = 1e6
	nanosPerSecond = 1e9
)

// bins is the number of parts of equal length into which a stage's time is divided. Two runs are compared part by part:
// by time if the stages are equally long, else by progress.
const bins = 240

// series is a stage, part by part.
type series struct {
	result          *results.StageResult
	fromNs, widthNs float64
	// residence is the mean number of parts that a request lasts, rounded up.
	residence int
	// requests and tokens completed in each part; those of a request are spread evenly over its time.
	requests, tokens []float64
	// Requests that met the SLO and those that failed, among those that ended by themselves.
	good, failed sums
	latencies    [len(latencies)]distribution
}

// sums has for each part a number of values and their sum.
type sums struct{ n, sum []float64 }

// distribution has for each part the number and the sum of values, and how many are not above each percentile.
type distribution struct {
	sums
	limits [len(percentiles)]float64 // values of the percentiles in the stage's result, in nanoseconds
	below  [len(percentiles)][]float64
	all    *histogram.Histogram
}

// newSeries divides the requests of a stage into parts. It returns nil if there are no rows, or no request completed.
// The order of the requests does not matter: all sums are exact.
func newSeries(of *stage) (*series, error) {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	residence, completed := 0.0, 0.0 // time that the completed requests took in all, and their number
	err := of.requests(func(r *Request) error {
		first, last = min(first, r.StartNs), max(last, r.EndNs)
		if r.Completed {
			residence, completed = residence+float64(r.EndNs-r.StartNs), completed+1
		}
		return nil
	})
	if err != nil || completed == 0 || last <= first {
		return nil, err
	}
	from, to, result := float64(first), float64(last), of.result
	s := &series{result: result, fromNs: from, widthNs: (to - from) / bins,
		requests: make([]float64, bins), tokens: make([]float64, bins), good: newSums(), failed: newSums()}
	s.residence = int(math.Ceil(residence / completed / s.widthNs))
	for which := range s.latencies {
		s.latencies[which] = newDistribution(result.Latency(latencies[which].name))
	}
	err = of.requests(func(r *Request) error {
		s.add(r, result.Goodput)
		return nil
	})
	return s, err
}

func newSums() sums { return sums{make([]float64, bins), make([]float64, bins)} }

func newDistribution(d *histogram.Summary) distribution {
	of := distribution{sums: newSums(), all: histogram.New(histogram.Times)}
	for i, p := range percentiles {
		of.below[i] = make([]float64, bins)
		if d != nil {
			of.limits[i] = *d.At(p.name) * nanosPerMs
		}
	}
	return of
}

// add adds a request. Its latencies count in the part in which it started, its gaps where they ended.
func (s *series) add(r *Request, slo *results.Goodput) {
	at := s.bin(float64(r.StartNs))
	if !r.Cancelled {
		s.failed.add(at, oneIf(!r.Completed))
		s.good.add(at, oneIf(r.Completed && good(r, slo)))
	}
	if !r.Completed {
		return
	}
	s.spread(s.requests, 1, r.StartNs, r.EndNs)
	if r.FirstTokenNs == nil || r.LastTokenNs == nil {
		s.spread(s.tokens, float64(r.OutputTokens), r.StartNs, r.EndNs)
		if r.LastTokenNs != nil {
			s.latencies[e2e].add(at, *r.LastTokenNs-r.StartNs)
		}
		return
	}
	first, last := *r.FirstTokenNs, *r.LastTokenNs
	s.spread(s.tokens, float64(r.OutputTokens), first, last)
	s.latencies[ttft].add(at, first-r.StartNs)
	s.latencies[e2e].add(at, last-r.StartNs)
	if r.OutputTokens > 1 {
		s.latencies[tpot].add(at, tokenTime(r))
	}
	arrived := first
	for _, gap := range r.ITLNs {
		arrived += gap
		s.latencies[itl].add(s.bin(float64(arrived)), gap)
	}
}

// tokenTime returns a request's TPOT in nanoseconds.
func tokenTime(r *Request) int64 {
	return int64(math.Round(float64(*r.LastTokenNs-*r.FirstTokenNs) / float64(r.OutputTokens-1)))
}

// good reports whether a completed request met the limits of the SLO.
func good(r *Request, slo *results.Goodput) bool {
	if slo == nil || r.LastTokenNs == nil {
		return slo != nil
	}
	first := *cmp.Or(r.FirstTokenNs, r.LastTokenNs) // an answer in one body: its first token comes with its last
	within := func(ns float64, limit *float64) bool { return limit == nil || ns <= *limit*nanosPerMs }
	return within(float64(first-r.StartNs), slo.TTFTMs) && within(float64(*r.LastTokenNs-r.StartNs), slo.E2EMs) &&
		(r.OutputTokens < 2 || r.FirstTokenNs == nil || within(float64(tokenTime(r)), slo.TPOTMs))
}

// bin returns the part that contains a time.
func (s *series) bin(ns float64) int { return max(0, min(bins-1, int((ns-s.fromNs)/s.widthNs))) }

// grain is the smallest part of a request or token that spread adds. Sums of multiples of a power of two are exact, in
// whatever order they are added.
const grain = 1.0 / (1 << 20)

// spread adds an amount evenly over a time.
func (s *series) spread(parts []float64, amount float64, fromNs, toNs int64) {
	first, last := s.bin(float64(fromNs)), s.bin(float64(toNs))
	if first == last || toNs <= fromNs {
		parts[last] += amount
		return
	}
	rate := amount / float64(toNs-fromNs)
	for k := first; k <= last; k++ {
		begin, end := s.fromNs+float64(k)*s.widthNs, s.fromNs+float64(k+1)*s.widthNs
		parts[k] += math.Round(rate*(min(end, float64(toNs))-max(begin, float64(fromNs)))/grain) * grain
	}
}

func (s *sums) add(at int, v float64) {
	s.n[at]++
	s.sum[at] += v
}

func (d *distribution) add(at int, ns int64) {
	d.sums.add(at, float64(ns))
	d.all.Record(ns)
	for i, limit := range d.limits {
		d.below[i][at] += oneIf(float64(ns) <= limit)
	}
}

// mean returns by how much each part moves the mean of all values, or nil if there are none.
func (s *sums) mean() []float64 {
	n, sum := floats.Sum(s.n), floats.Sum(s.sum)
	if n == 0 {
		return nil
	}
	return scaled(floats.AddScaledTo(make([]float64, bins), s.sum, -sum/n, s.n), bins/n)
}

// percentile returns by how much each part moves a percentile, relative to its value in nanoseconds: by the share of
// values below it, over the density there (Bahadur 1966). The density is the smaller one of those up to the percentiles
// two standard errors of the share below and above (Woodruff 1952). It returns nil if there are too few values: if the
// share above or below is less than three times its standard error.
func (d *distribution) percentile(i int, value float64, residence int) []float64 {
	n, below := floats.Sum(d.n), floats.Sum(d.below[i])
	if n == 0 || value <= 0 {
		return nil
	}
	moved := scaled(floats.AddScaledTo(make([]float64, bins), d.below[i], -below/n, d.n), -bins/n)
	spread, ok := chance.Series(moved, residence)
	if share := below / n; !ok || min(share, 1-share, 1-percentiles[i].share) <= max(3*spread.Error, 1/n) {
		return nil
	}
	around := max(2*spread.Error, 1/n)
	low, high := percentiles[i].share-around, percentiles[i].share+around
	above := float64(d.all.Percentile(100*high)) - value
	under := value - float64(d.all.Percentile(100*low))
	return scaled(moved, max(above, under)/around/value)
}

// relative returns by how much each part moves the sum of all parts, relative to it, or nil if that is 0.
func relative(parts []float64) []float64 {
	mean := floats.Sum(parts) / bins
	if mean == 0 {
		return nil
	}
	moved := scaled(slices.Clone(parts), 1/mean)
	floats.AddConst(-1, moved)
	return moved
}

// scaled multiplies values in place and returns them. It returns nil for nil.
func scaled(values []float64, factor float64) []float64 {
	floats.Scale(factor, values)
	return values
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// History returns a metric of all stages of runs as lines, in the order in which stages first come. Each stage is
// compared with that of the last run before it that has the same plan, target, workload and load, and can be believed;
// several repeats are several stages. Runs without a time of their start are left out. The error is that of reading
// requests.
func History(runs []*Run, metric *Metric, o Options) ([]*spatev1.HistoryLine, error) {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *Run) int { return begun(a).Compare(begun(b)) })
	var records []*Record
	last := map[StageKey]*Run{}
	for _, r := range runs {
		record, err := RecordOf(r, func(k StageKey) *Run { return last[k] }, o)
		if err != nil {
			return nil, err
		}
		if record == nil {
			continue
		}
		records = append(records, record)
		for i := range record.Stages {
			if s := &record.Stages[i]; s.Usable {
				last[record.Key(s)] = r
			}
		}
	}
	return Lines(records, metric), nil
}

// Lines returns a metric of all stages of records, the oldest first, as lines, in the order in which stages first come.
func Lines(records []*Record, metric *Metric) (order []*spatev1.HistoryLine) {
	lines := map[StageKey]*spatev1.HistoryLine{}
	for _, r := range records {
		for s := range lists.Refs(r.Stages) {
			n, has := s.Numbers[metric.Name]
			if !has {
				continue
			}
			l := lines[r.Key(s)]
			if l == nil {
				l = &spatev1.HistoryLine{Plan: r.Plan, Target: s.Target, Workload: s.Workload, Load: s.Load,
					Metric: metric.Name, Unit: metric.Unit}
				lines[r.Key(s)], order = l, append(order, l)
			}
			p := &spatev1.HistoryPoint{Run: r.Run, Time: timestamppb.New(r.Time), Version: r.Version, Labels: s.Labels,
				Value: n.Value, Verdict: string(s.Verdict), Change: n.Change, Outcome: string(n.Outcome)}
			if n.Outcome != "" {
				p.Against = s.Against
			}
			l.Points = append(l.Points, p)
		}
	}
	return order
}
