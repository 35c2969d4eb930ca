package workload

import (
	"math"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// LongestRequest returns the length in tokens, prompt and output together, of a workload's longest request. The length
// comes from the plan, or else from the rows, if there are any. With a normal or lognormal distribution that is not
// bounded, at most one request in 10^9 is longer. Known is false if neither tells the length, as with images, or if New
// would refuse the workload.
func LongestRequest(w *spatev1.Workload, rows *spatev1.Dataset) (tokens uint32, known bool) {
	switch content := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		isl, osl, err := shapesOf(content.Random)
		if err != nil {
			return 0, false
		}
		if content.Random.GetImages() != nil {
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

// sum adds a prompt and an output, and saturates at the largest uint32.
func sum(isl, osl uint32) (tokens uint32, known bool) {
	return uint32(min(uint64(isl)+uint64(osl), math.MaxUint32)), true
}

// ShortestPrompt returns the length in tokens of the shortest prompt of a workload, if the plan tells it. With a normal
// or lognormal distribution that is not bounded, at most one prompt in 10^9 is shorter.
func ShortestPrompt(w *spatev1.Workload) (tokens uint32, known bool) {
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
		return n.atSigmas(-rareSigmas), true
	}
	return isl.shortest(), true
}
