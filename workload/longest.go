package workload

import (
	"math"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Longest returns the length of the longest request of a workload in tokens, prompt and output together, where the plan
// tells it, or else its rows, if it has any. At most one request in 10^9 is longer, where a normal or lognormal
// distribution is not cut off. It is not known for a workload that New refuses.
func Longest(w *spatev1.Workload, rows *spatev1.Dataset) (tokens uint32, known bool) {
	switch content := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		isl, osl, err := shapesOf(content.Random)
		if err != nil {
			return 0, false
		}
		return sum(isl.longest(), osl.longest())
	case *spatev1.Workload_Sonnet:
		return sum(content.Sonnet.GetIsl(), content.Sonnet.GetOsl())
	case *spatev1.Workload_Sessions:
		s := content.Sessions
		turns, isl, osl, err := sessionShapes(s)
		if err != nil {
			return 0, false
		}
		return uint32(longestSession(s.GetSystem(), turns, isl, osl)), true
	default:
		return rows.GetLongest(), rows.GetLongest() > 0
	}
}

// sum adds a prompt and an output.
func sum(isl, osl uint32) (tokens uint32, known bool) {
	return uint32(min(uint64(isl)+uint64(osl), math.MaxUint32)), true
}

// Shortest returns the length of the shortest prompt that a workload asks for in tokens, where the plan tells it. At
// most one in 10^9 is shorter, where a normal or lognormal distribution is not cut off.
func Shortest(w *spatev1.Workload) (tokens uint32, known bool) {
	var isl shape
	var err error
	switch content := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		isl, _, err = shapesOf(content.Random)
	case *spatev1.Workload_Sessions:
		if content.Sessions.GetSystem() > 0 {
			return 0, false
		}
		_, isl, _, err = sessionShapes(content.Sessions)
	default:
		return 0, false
	}
	if err != nil {
		return 0, false
	}
	if n, ok := isl.(normal); ok {
		return n.cut(-rareSigmas), true
	}
	return isl.shortest(), true
}
