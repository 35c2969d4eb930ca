// Package bundle adds up the values that several agents measured in one window, without loss.
//
// A bundle is the snapshots of some agents of one region and window, each without its values, and one snapshot more
// with the sum of the values. What is known of single agents stays in their snapshots: counters, errors, shares, rows,
// totals, and how many values there were. Relays make bundles, and the ledger knows a snapshot that it has without its
// values when that is sent again with them. The package is pure.
package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Strip returns a snapshot without its distributions and turns, and with the number of its values by metric. The result
// shares all else with s. It fails if a distribution is invalid.
func Strip(s *spatev1.Snapshot) (*spatev1.Snapshot, error) {
	var counts [measure.Count]uint64
	stripped := &spatev1.Snapshot{
		Key: s.GetKey(), StageIndex: s.GetStageIndex(), Revision: s.GetRevision(), Window: s.GetWindow(),
		Records: s.GetRecords(), PeakInFlight: s.GetPeakInFlight(), Totals: s.GetTotals(), FirstWindow: s.FirstWindow,
		StartedItems: s.GetStartedItems(), DroppedRecords: s.GetDroppedRecords(), ServerSamples: s.GetServerSamples(),
		Shares: s.GetShares(), ServerAccounts: s.GetServerAccounts(), Left: s.GetLeft(),
	}
	for _, series := range s.GetSeries() {
		stripped.Series = append(stripped.Series, &spatev1.Series{
			Endpoint: series.GetEndpoint(), Part: series.GetPart(), Counters: series.GetCounters(),
			Errors: series.GetErrors(),
		})
		for _, d := range series.GetDistributions() {
			values, err := check(d)
			if err != nil {
				return nil, err
			}
			counts[d.GetMetric()] += values.Count()
		}
	}
	for metric, n := range counts {
		if n > 0 {
			stripped.MergedValues = append(stripped.MergedValues, &spatev1.MetricCount{
				Metric: spatev1.Metric(metric), Count: n,
			})
		}
	}
	return stripped, nil
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
// and their indices returned: a distribution is invalid, or there are too many values. The result shares parts of the
// snapshots.
func Of(
	snapshots []*spatev1.Snapshot, merged *spatev1.Merged,
) (sum *spatev1.Snapshot, members []*spatev1.Snapshot, misfits []int) {
	var series, turns cells
	for i, s := range snapshots {
		stripped, err := Strip(s)
		if err == nil {
			err = addBoth(&series, &turns, s)
		}
		if err != nil {
			misfits = append(misfits, i)
			continue
		}
		members = append(members, stripped)
	}
	first := snapshots[0]
	return &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{RunId: first.GetKey().GetRunId()}, StageIndex: first.GetStageIndex(),
		Window: first.GetWindow(), Merged: merged, Series: series.encode(), Turns: turns.encode(),
	}, members, misfits
}

// addBoth adds the values of a snapshot, or nothing if it fails.
func addBoth(series, turns *cells, s *spatev1.Snapshot) error {
	values, err := series.fit(s.GetSeries())
	if err != nil {
		return err
	}
	ofTurns, err := turns.fit(s.GetTurns())
	if err != nil {
		return err
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

// errFull means that a snapshot has more values than fit into a bundle with the others.
var errFull = errors.New("too many values for one bundle")

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
	for _, series := range all {
		to := c.of(series)
		var seen measure.Set
		for _, d := range series.GetDistributions() {
			values, err := check(d)
			if err != nil {
				return nil, err
			}
			m := d.GetMetric()
			if seen.Has(m) {
				return nil, fmt.Errorf("metric %d is given twice", m)
			}
			seen |= measure.SetOf(m)
			if h := to.values[m]; h != nil && h.Count()+values.Count() > measure.MaxValues {
				return nil, errFull
			}
			out = append(out, encoded{to, m, values})
		}
		more := measure.CountsOf(series.GetCounters())
		more.Add(&to.counters)
		if slices.ContainsFunc(more[:], func(n uint64) bool { return n > measure.MaxWindowCount }) {
			return nil, errFull
		}
	}
	return out, nil
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
