// Package bundle adds up the values that several agents measured in one window, without loss.
//
// A bundle is the snapshots of some agents of one region and window, each without its values, and one snapshot more
// with the sum of the values. What is known of single agents stays in their snapshots: counters, errors, rows, totals,
// and how many values there were. Relays make bundles, and the ledger knows a snapshot that it has without its values
// when that is sent again with them. The package is pure.
package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Strip returns a snapshot without its distributions, turns and shares, and with the number of its values by metric.
// The result shares all else with s. It fails if a distribution is invalid, or if the shares are not those of the
// counted requests and tokens: afterwards it could not be found out whose they were. It also fails if s is part of a
// bundle, or has fields of a later version, which would be lost.
func Strip(s *spatev1.Snapshot) (*spatev1.Snapshot, error) {
	stripped, err := bare(s)
	if err != nil {
		return nil, err
	}
	for _, series := range s.GetSeries() {
		for _, d := range series.GetDistributions() {
			values, err := check(d)
			if err != nil {
				return nil, err
			}
			noteTaken(stripped, d.GetMetric(), values)
		}
	}
	return stripped, nil
}

// noteTaken notes that values of a metric were taken out of a snapshot.
func noteTaken(stripped *spatev1.Snapshot, m spatev1.Metric, values histogram.Encoded) {
	counts := stripped.GetTakenOut()
	counts = counts[:max(len(counts), int(m)+1)]
	counts[m] += values.Count()
	stripped.TakenOut = counts
}

// bare is Strip for a snapshot whose distributions are checked by the caller, who notes what was taken out.
func bare(s *spatev1.Snapshot) (*spatev1.Snapshot, error) {
	if s.GetMerged() != nil || len(s.GetTakenOut()) > 0 {
		return nil, errors.New("it is part of a bundle already")
	}
	if later(s) || slices.ContainsFunc(s.GetSeries(), later) || slices.ContainsFunc(s.GetTurns(), later) ||
		slices.ContainsFunc(s.GetShares(), later) {
		return nil, errors.New("it has fields that this version does not know")
	}
	if want := Shared(s); SharesOf(s) != want {
		return nil, fmt.Errorf("shares of %+v, but counters of %+v", SharesOf(s), want)
	}
	stripped := &spatev1.Snapshot{
		Key: s.GetKey(), StageIndex: s.GetStageIndex(), Revision: s.GetRevision(), Window: s.GetWindow(),
		Records: s.GetRecords(), PeakInFlight: s.GetPeakInFlight(), Totals: s.GetTotals(), FirstWindow: s.FirstWindow,
		StartedItems: s.GetStartedItems(), DroppedRecords: s.GetDroppedRecords(), ServerSamples: s.GetServerSamples(),
		ServerAccounts: s.GetServerAccounts(), Left: s.GetLeft(), MeasuredFromNs: s.MeasuredFromNs,
		TakenOut: make([]uint64, 1, measure.Count),
	}
	for _, series := range s.GetSeries() {
		stripped.Series = append(stripped.Series, &spatev1.Series{
			Endpoint: series.GetEndpoint(), Part: series.GetPart(), Counters: series.GetCounters(),
			Errors: series.GetErrors(), Models: series.GetModels(),
		})
	}
	return stripped, nil
}

// later reports whether a message has fields of a later version.
func later[M proto.Message](m M) bool { return len(m.ProtoReflect().GetUnknown()) > 0 }

// Shares are what requests contributed to windows, over all windows.
type Shares struct{ Tokens, Chunks, MicroRequests uint64 }

// Million is the number of parts into which agents divide a request among windows.
const Million = 1_000_000

// Shared returns what the shares of a snapshot must add up to, by its counters.
func Shared(s *spatev1.Snapshot) (sum Shares) {
	for _, series := range s.GetSeries() {
		c := series.GetCounters()
		sum = sum.Plus(Shares{c.GetOutputTokens(), c.GetChunks(), Million * c.GetCompleted()})
	}
	return sum
}

// SharesOf returns the sum of the shares of a snapshot.
func SharesOf(snapshot *spatev1.Snapshot) (sum Shares) {
	for _, s := range snapshot.GetShares() {
		sum = sum.Plus(Shares{s.GetOutputTokens(), s.GetChunks(), s.GetMicroRequests()})
	}
	return sum
}

// Plus returns the sum of both.
func (s Shares) Plus(o Shares) Shares {
	return Shares{s.Tokens + o.Tokens, s.Chunks + o.Chunks, s.MicroRequests + o.MicroRequests}
}

// check checks a distribution of a metric that this program knows.
func check(d *spatev1.Distribution) (histogram.Encoded, error) {
	if !measure.Known(d.GetMetric()) {
		return histogram.Encoded{}, fmt.Errorf("metric %d is not known", d.GetMetric())
	}
	values, err := histogram.Check(d)
	if err != nil {
		return values, fmt.Errorf("%s: %w", measure.Of(d.GetMetric()).Name, err)
	}
	return values, nil
}

// Of returns the bundle of some snapshots of one run, stage and window: the snapshot with the sum of their values,
// whose key names only the run, and the snapshots without their values. Snapshots that cannot be in it are left out,
// and their indices returned: Strip would fail, or there are too many values. The result shares parts of the snapshots.
func Of(
	snapshots []*spatev1.Snapshot, merged *spatev1.Merged,
) (sum *spatev1.Snapshot, members []*spatev1.Snapshot, misfits []int) {
	var series, turns cells
	shares := map[uint32]*spatev1.WindowShare{}
	for i, s := range snapshots {
		stripped, err := bare(s)
		if err == nil {
			err = addBoth(&series, &turns, s, stripped)
		}
		if err != nil {
			misfits = append(misfits, i)
			continue
		}
		members = append(members, stripped)
		for _, share := range s.GetShares() {
			addShare(shares, share)
		}
	}
	first := snapshots[0]
	return &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{RunId: first.GetKey().GetRunId()}, StageIndex: first.GetStageIndex(),
		Window: first.GetWindow(), Merged: merged, Series: series.encode(), Turns: turns.encode(),
		Shares: slices.SortedFunc(maps.Values(shares), func(a, b *spatev1.WindowShare) int {
			return cmp.Compare(a.GetWindow(), b.GetWindow())
		}),
	}, members, misfits
}

// addShare adds what requests contributed to a window.
func addShare(all map[uint32]*spatev1.WindowShare, s *spatev1.WindowShare) {
	sum := all[s.GetWindow()]
	if sum == nil {
		sum = &spatev1.WindowShare{Window: s.GetWindow()}
		all[s.GetWindow()] = sum
	}
	sum.OutputTokens += s.GetOutputTokens()
	sum.Chunks += s.GetChunks()
	sum.MicroRequests += s.GetMicroRequests()
}

// addBoth adds the values of a snapshot, or nothing if it fails, and notes what it took out of it.
func addBoth(series, turns *cells, s, stripped *spatev1.Snapshot) error {
	values, err := series.fit(s.GetSeries())
	if err != nil {
		return err
	}
	ofTurns, err := turns.fit(s.GetTurns())
	if err != nil {
		return err
	}
	for _, v := range values {
		noteTaken(stripped, v.metric, v.values)
	}
	for _, d := range append(values, ofTurns...) {
		if d.to.values[d.metric] == nil {
			d.to.values[d.metric] = histogram.New(d.values.Layout())
		}
		if err := d.to.values[d.metric].Add(d.values); err != nil {
			panic("bundle: " + err.Error()) // fit has checked that it fits
		}
	}
	for _, t := range s.GetTurns() {
		turns.of(t).count(t)
	}
	return nil
}

// errFull means that a snapshot has more values or cells than fit into a bundle with the others.
var errFull = errors.New("too many values for one bundle")

// Bounds on what a snapshot can make a relay keep: an agent may be broken.
const (
	maxCells  = 1 << 16 // of a bundle
	maxErrors = 1 << 10 // kinds of one cell; there are fewer
)

// cell names the measurements of one part and endpoint, or of one class of turns.
type cell struct{ part, endpoint uint32 }

// cells are sums by cell.
type cells map[cell]*total

// total is the sum of one cell. Counters and errors are only of turns: those of series stay with their agents.
type total struct {
	counters measure.Counts
	errors   []*spatev1.ErrorCount
	values   [measure.Count]*histogram.Histogram
}

// encoded is a checked distribution.
type encoded struct {
	to     *total
	metric spatev1.Metric
	values histogram.Encoded
}

// of returns the sum of a cell, and creates it if necessary.
func (c *cells) of(s *spatev1.Series) *total {
	at := cell{s.GetPart(), s.GetEndpoint()}
	if *c == nil {
		*c = cells{}
	}
	if (*c)[at] == nil {
		(*c)[at] = &total{}
	}
	return (*c)[at]
}

// fit checks that measurements can be added, and returns their distributions. It adds nothing to a sum.
func (c *cells) fit(all []*spatev1.Series) (out []encoded, err error) {
	if len(*c)+len(all) > maxCells {
		return nil, errFull
	}
	given := make(map[*total]bool, len(all))
	for _, series := range all {
		to := c.of(series)
		if given[to] {
			return nil, fmt.Errorf("part %d of endpoint %d is given twice", series.GetPart(), series.GetEndpoint())
		}
		given[to] = true
		if err := to.fitCounts(series); err != nil {
			return nil, err
		}
		values, err := to.fitValues(series)
		if err != nil {
			return nil, err
		}
		out = append(out, values...)
	}
	return out, nil
}

// fitValues returns the distributions of a series if they can be added.
func (t *total) fitValues(s *spatev1.Series) (out []encoded, err error) {
	var seen measure.Set
	for _, d := range s.GetDistributions() {
		values, err := check(d)
		if err != nil {
			return nil, err
		}
		m := d.GetMetric()
		if seen.Has(m) {
			return nil, fmt.Errorf("metric %d is given twice", m)
		}
		seen |= measure.SetOf(m)
		n := values.Count()
		if h := t.values[m]; h != nil {
			n += h.Count()
		}
		if n > measure.MaxValues {
			return nil, errFull
		}
		out = append(out, encoded{t, m, values})
	}
	return out, nil
}

// fitCounts checks that the counters and errors of a series can be added.
func (t *total) fitCounts(s *spatev1.Series) error {
	for i, n := range measure.CountsOf(s.GetCounters()) {
		if n > measure.MaxWindowCount-t.counters[i] {
			return errFull
		}
	}
	if len(s.GetErrors()) > maxErrors {
		return fmt.Errorf("%d kinds of errors", len(s.GetErrors()))
	}
	failed := uint64(0)
	for _, e := range s.GetErrors() {
		failed += min(e.GetCount(), measure.MaxWindowCount+1)
	}
	if failed != s.GetCounters().GetFailed() {
		return fmt.Errorf("%d failed requests, but %d errors", s.GetCounters().GetFailed(), failed)
	}
	return nil
}

// count adds the counters and errors of a class of turns.
func (t *total) count(s *spatev1.Series) {
	more := measure.CountsOf(s.GetCounters())
	t.counters.Add(&more)
	for _, e := range s.GetErrors() {
		i := slices.IndexFunc(t.errors, func(o *spatev1.ErrorCount) bool {
			return o.GetClass() == e.GetClass() && o.GetHttpStatus() == e.GetHttpStatus()
		})
		if i < 0 {
			t.errors = append(t.errors, &spatev1.ErrorCount{
				Class: e.GetClass(), HttpStatus: e.GetHttpStatus(), Count: e.GetCount(), Example: e.GetExample(),
			})
			continue
		}
		t.errors[i].Count += e.GetCount()
	}
}

// encode returns all cells in order. Empty ones are left out.
func (c cells) encode() (all []*spatev1.Series) {
	for at, t := range c {
		series := &spatev1.Series{Endpoint: at.endpoint, Part: at.part, Errors: t.errors}
		if t.counters != (measure.Counts{}) {
			series.Counters = t.counters.Proto()
		}
		for m, h := range t.values {
			if h != nil {
				series.Distributions = append(series.Distributions, h.Proto(spatev1.Metric(m)))
			}
		}
		if len(series.Distributions) > 0 || series.Counters != nil {
			all = append(all, series)
		}
	}
	slices.SortFunc(all, func(a, b *spatev1.Series) int {
		return cmp.Or(cmp.Compare(a.GetPart(), b.GetPart()), cmp.Compare(a.GetEndpoint(), b.GetEndpoint()))
	})
	return all
}
