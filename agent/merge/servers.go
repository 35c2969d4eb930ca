package merge

import (
	"cmp"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ServerSamples returns the newest value of each series that servers told, in the order of sources, names and labels.
// Values are not added: each is what a server said at one time. What it said before within the same snapshot is gone
// with the finer resolution in time.
func ServerSamples(older, newer []*spatev1.ServerSample) []*spatev1.ServerSample {
	all := slices.Concat(newer, older)
	slices.SortStableFunc(all, CompareServerSamples)
	return slices.CompactFunc(all, func(a, b *spatev1.ServerSample) bool { return CompareServerSamples(a, b) == 0 })
}

// CompareServerSamples orders samples by what they are of: source, name, labels.
func CompareServerSamples(a, b *spatev1.ServerSample) int {
	return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), cmp.Compare(a.GetName(), b.GetName()),
		cmp.Compare(a.GetLabels(), b.GetLabels()))
}
