package outbox

import (
	"cmp"
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// MergeServerSamples returns the newest value of each series that servers reported, ordered by source, name and labels.
// Values are not added, because each is a server's state at one time. Earlier values within the merged snapshot are
// lost with the finer resolution in time.
func MergeServerSamples(older, newer []*spatev1.ServerSample) []*spatev1.ServerSample {
	all := slices.Concat(newer, older)
	slices.SortStableFunc(all, compareServerSamples)
	return slices.CompactFunc(all, func(a, b *spatev1.ServerSample) bool { return compareServerSamples(a, b) == 0 })
}

// compareServerSamples orders samples by source, name and labels.
func compareServerSamples(a, b *spatev1.ServerSample) int {
	return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), cmp.Compare(a.GetName(), b.GetName()),
		cmp.Compare(a.GetLabels(), b.GetLabels()))
}
