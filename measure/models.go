package measure

import (
	"slices"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// OtherModels stands for the models that answers named beyond those that are known by name.
	OtherModels = "(other)"
	// maxMergedModels is how many models the sum of several agents knows by name.
	maxMergedModels = 64
)

// AddModels adds the counts of from to those of to, and returns the extended to. It changes no message of from.
func AddModels(to, from []*spatev1.ModelCount) []*spatev1.ModelCount {
	for _, m := range from {
		name := m.GetModel()
		place := func() int {
			return slices.IndexFunc(to, func(o *spatev1.ModelCount) bool { return o.GetModel() == name })
		}
		i := place()
		if i < 0 && len(to) >= maxMergedModels {
			name = OtherModels
			i = place()
		}
		if i < 0 {
			to = append(to, proto.CloneOf(m))
			to[len(to)-1].Model = name
			continue
		}
		to[i].Requests += m.GetRequests()
		to[i].E2EUs += m.GetE2EUs()
		to[i].Streamed += m.GetStreamed()
		to[i].TtftUs += m.GetTtftUs()
	}
	return to
}
