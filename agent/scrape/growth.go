package scrape

import (
	"cmp"
	"maps"
	"slices"

	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// growth returns what a server counted between two readings, within the limits of an account; the most important
// metrics are kept. A series that is not in the first reading counts from 0. If the server restarted in between, its
// earlier counts are lost, and the growth is everything it has now.
func growth(first, last totals, order names) *spatev1.ServerAccount {
	a := &spatev1.ServerAccount{Restarted: restarted(first, last), LeftOut: last.leftOut}
	if a.Restarted {
		first = totals{}
	}
	for key, value := range last.counters {
		grew := increase(first.counters[key], value)
		if !finite(grew) {
			a.LeftOut++
			continue
		}
		a.Counters = append(a.Counters, &spatev1.ServerCounter{Name: key.name, Labels: key.labels, Increase: grew})
	}
	for _, name := range slices.Sorted(maps.Keys(namesOf(last.histograms))) {
		h := histogramGrowth(name, first.histograms, last.histograms)
		if !finite(h.GetSum()) || h.GetCount() > servermetrics.MaxCount {
			a.LeftOut++
			continue
		}
		a.Histograms = append(a.Histograms, h)
	}
	limit(a, order)
	return a
}

// increase returns what a counter grew by. A counter that decreased restarted at 0, as in Prometheus' increase().
func increase(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}

// restarted reports whether a server restarted between two readings: its start time differs, or, if that is not
// known, something that only grows has decreased.
func restarted(first, last totals) bool {
	if first.started != 0 && last.started != 0 {
		return first.started != last.started
	}
	for key, before := range first.counters {
		if after, there := last.counters[key]; there && after < before {
			return true
		}
	}
	for key, before := range first.histograms {
		if after, there := last.histograms[key]; there && after.count < before.count {
			return true
		}
	}
	return false
}

// namesOf returns the names of histograms.
func namesOf(histograms map[series]histogram) map[string]bool {
	names := map[string]bool{}
	for key := range histograms {
		names[key.name] = true
	}
	return names
}

// histogramGrowth returns the growth of all histograms with a name together. It has buckets only if all of them have
// the same.
func histogramGrowth(name string, first, last map[series]histogram) *spatev1.ServerHistogram {
	sum := &spatev1.ServerHistogram{Name: name}
	known := true
	for key, after := range last {
		if key.name != name {
			continue
		}
		before := first[key]
		if after.count < before.count { // the series of this label alone restarted
			before = histogram{}
		}
		sum.Count += after.count - before.count
		sum.Sum += after.sum - before.sum
		if counts := bucketGrowth(before, after); known && counts != nil &&
			(sum.Bounds == nil || slices.Equal(sum.Bounds, after.bounds)) {
			sum.Bounds, sum.Counts = after.bounds, addCounts(sum.Counts, counts)
			continue
		}
		known = false
	}
	if !known || sum.Count == 0 {
		sum.Bounds, sum.Counts = nil, nil
	}
	return sum
}

// bucketGrowth returns what each bucket grew by, or nil if that is not known.
func bucketGrowth(before, after histogram) []uint64 {
	if before.count > 0 && !slices.Equal(before.bounds, after.bounds) {
		return nil
	}
	counts := slices.Clone(after.counts)
	for i, n := range before.counts {
		if before.count == 0 {
			break
		}
		if n > counts[i] {
			return nil
		}
		counts[i] -= n
	}
	return counts
}

// addCounts adds the counts of equal buckets, in place. The first may be nil.
func addCounts(a, b []uint64) []uint64 {
	if a == nil {
		return b
	}
	for i := range b {
		a[i] += b[i]
	}
	return a
}

// limit keeps what an account may hold, the most important first, and sorts it by name.
func limit(a *spatev1.ServerAccount, order names) {
	slices.SortFunc(a.Counters, func(x, y *spatev1.ServerCounter) int {
		return cmp.Or(cmp.Compare(order.rankOf(x.GetName(), true), order.rankOf(y.GetName(), true)),
			compareCounters(x, y))
	})
	slices.SortStableFunc(a.Histograms, func(x, y *spatev1.ServerHistogram) int {
		return cmp.Compare(order.rank(x.GetName()), order.rank(y.GetName()))
	})
	counters, histograms := min(len(a.Counters), servermetrics.MaxCounters),
		min(len(a.Histograms), servermetrics.MaxHistograms)
	a.LeftOut += uint32(len(a.Counters) - counters + len(a.Histograms) - histograms)
	a.Counters, a.Histograms = a.Counters[:counters], a.Histograms[:histograms]
	slices.SortFunc(a.Counters, compareCounters)
	slices.SortFunc(a.Histograms,
		func(x, y *spatev1.ServerHistogram) int { return cmp.Compare(x.GetName(), y.GetName()) })
}

// compareCounters orders counters by name and labels.
func compareCounters(a, b *spatev1.ServerCounter) int {
	return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetLabels(), b.GetLabels()))
}
