package servermetrics

import (
	"fmt"
	"math"
	"slices"

	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// CheckSamples checks the server metrics that an agent sends.
func CheckSamples(samples []*spatev1.ServerSample, target *spatev1.Target) error {
	if len(samples) == 0 {
		return nil
	}
	sources, counts := uint32(len(servermetrics.Sources(target))), map[uint32]int{}
	seen := make(map[serverKey]bool, len(samples))
	for _, s := range samples {
		key := serverKey{s.GetSource(), s.GetName(), s.GetLabels()}
		counts[key.source]++
		switch {
		case key.source >= sources:
			return fmt.Errorf("server metrics: source %d: the target has %d", key.source, sources)
		case !rightTexts(key):
			return fmt.Errorf("server metrics of source %d: a name of %d bytes with labels of %d", key.source,
				len(key.name), len(key.labels))
		case !(math.Abs(s.GetValue()) <= servermetrics.MaxValue):
			return fmt.Errorf("server metrics of source %d: %.80s is %v: want a number up to %.0e", key.source,
				key.name, s.GetValue(), servermetrics.MaxValue)
		case seen[key]:
			return fmt.Errorf("server metrics of source %d: %s is given twice", key.source, key.name)
		case counts[key.source] > maxServerSamples:
			return fmt.Errorf("server metrics of source %d: more than %d", key.source, maxServerSamples)
		}
		seen[key] = true
	}
	return nil
}

// CheckAccounts checks the accounts that an agent sends.
func CheckAccounts(accounts []*spatev1.ServerAccount, target *spatev1.Target) error {
	if len(accounts) == 0 {
		return nil
	}
	sources, seen := len(servermetrics.Sources(target)), map[uint32]bool{}
	for _, a := range accounts {
		switch {
		case int(a.GetSource()) >= sources:
			return fmt.Errorf("server account: source %d: the target has %d", a.GetSource(), sources)
		case seen[a.GetSource()]:
			return fmt.Errorf("server account of source %d: given twice", a.GetSource())
		case !withinStage(a.GetFromNs()) || !withinStage(a.GetToNs()):
			return fmt.Errorf("server account of source %d: from %d to %d ns of the stage", a.GetSource(),
				a.GetFromNs(), a.GetToNs())
		}
		seen[a.GetSource()] = true
		if err := checkServerAccount(a); err != nil {
			return fmt.Errorf("server account of source %d: %w", a.GetSource(), err)
		}
	}
	return nil
}

// withinStage reports whether a time can belong to a stage.
func withinStage(ns int64) bool {
	return ns <= measure.MaxWindow*nanosPerSecond && ns >= -measure.MaxWindow*nanosPerSecond
}

// checkServerAccount checks the series of an account.
func checkServerAccount(a *spatev1.ServerAccount) error {
	if len(a.GetCounters()) > servermetrics.MaxCounters || len(a.GetHistograms()) > servermetrics.MaxHistograms {
		return fmt.Errorf("%d counters and %d histograms: at most %d and %d are allowed",
			len(a.GetCounters()), len(a.GetHistograms()), servermetrics.MaxCounters, servermetrics.MaxHistograms)
	}
	seen := map[serverKey]bool{}
	for _, c := range a.GetCounters() {
		key := serverKey{name: c.GetName(), labels: c.GetLabels()}
		switch {
		case !rightTexts(key) || seen[key]:
			return fmt.Errorf("counter %.80q of %d bytes with labels of %d: empty, too long or given twice", key.name,
				len(key.name), len(key.labels))
		case !(math.Abs(c.GetIncrease()) <= servermetrics.MaxValue):
			return fmt.Errorf("counter %.80q grew by %v", key.name, c.GetIncrease())
		}
		seen[key] = true
	}
	for _, h := range a.GetHistograms() {
		key := serverKey{name: h.GetName(), labels: "histogram"}
		if !rightTexts(key) || seen[key] {
			return fmt.Errorf("histogram %.80q: its name is empty, too long or given twice", key.name)
		}
		seen[key] = true
		if err := checkServerHistogram(h); err != nil {
			return fmt.Errorf("histogram %.80q: %w", key.name, err)
		}
	}
	return nil
}

// rightTexts reports whether a series has a name, and its name and labels are not too long.
func rightTexts(key serverKey) bool {
	return key.name != "" && len(key.name) <= servermetrics.MaxName && len(key.labels) <= servermetrics.MaxLabels
}

// checkServerHistogram checks that the numbers of a histogram are consistent.
func checkServerHistogram(h *spatev1.ServerHistogram) error {
	bounds, counts := h.GetBounds(), h.GetCounts()
	switch {
	case h.GetCount() > servermetrics.MaxCount || !(math.Abs(h.GetSum()) <= servermetrics.MaxValue):
		return fmt.Errorf("%d values of %v together", h.GetCount(), h.GetSum())
	case len(bounds) > servermetrics.MaxBuckets ||
		len(counts) != 0 && len(counts) != len(bounds)+1 ||
		len(bounds) > 0 && len(counts) == 0:
		return fmt.Errorf("%d bounds and %d counts", len(bounds), len(counts))
	case !slices.IsSorted(bounds) ||
		slices.ContainsFunc(bounds, func(b float64) bool { return !(math.Abs(b) <= servermetrics.MaxValue) }):
		return fmt.Errorf("bounds %v do not rise, or are no numbers", bounds)
	}
	sum := uint64(0)
	for _, n := range counts {
		if sum += n; n > servermetrics.MaxCount || sum > h.GetCount() {
			return fmt.Errorf("its buckets hold more than its %d values", h.GetCount())
		}
	}
	if len(counts) > 0 && sum != h.GetCount() {
		return fmt.Errorf("its buckets hold %d of its %d values", sum, h.GetCount())
	}
	return nil
}
