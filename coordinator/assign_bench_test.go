package coordinator

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// BenchmarkAssign measures the coordinator's work to assign a stage to 1,000 agents: copying and encoding an assignment
// with all weights for each agent. Weights sum up to at most 10,000.
func BenchmarkAssign(b *testing.B) {
	const agents = 1000
	weights := make([]uint32, agents)
	for i := range weights {
		weights[i] = 1 + uint32(i)%19
	}
	words := make([]string, 4000)
	for i := range words {
		words[i] = "word" + strconv.Itoa(i)
	}
	for name, lexicon := range map[string]*spatev1.Lexicon{"plain": nil, "with words": {Words: words}} {
		stage := &spatev1.Stage{
			Target:   &spatev1.Target{Name: "t", Endpoints: []string{"http://10.0.0.1:8000"}, Model: "m"},
			Workload: &spatev1.Workload{Name: "w", Content: &spatev1.Workload_Random{Random: &spatev1.RandomContent{}}},
			Lexicon:  lexicon,
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var bytes int
			for b.Loop() {
				bytes = 0
				for rank := range uint32(agents) {
					m := proto.CloneOf(
						&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: &spatev1.Assign{
							Ref: &spatev1.AssignmentRef{RunId: "run", Revision: 1}, Stage: stage,
							Stripe: &spatev1.Stripe{Weights: weights, Rank: rank},
						}}},
					)
					encoded, err := proto.Marshal(m)
					if err != nil {
						b.Fatal(err)
					}
					bytes += len(encoded)
				}
			}
			b.ReportMetric(float64(bytes)/agents, "bytes/agent")
		})
	}
}
