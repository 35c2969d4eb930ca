package access

import (
	"fmt"
	"math"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Labels that no selector can name are refused.
func TestLabels(t *testing.T) {
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint("l", i)] = "x"
	}
	for want, labels := range map[string]map[string]string{
		"": {"pool": "big", "k8s.io/zone": "a-1"}, `agent a: label "region"="eu" is not valid`: {"region": "eu"},
		`agent a: label "pool"="" is not valid`: {"pool": ""}, "agent a: 33 labels: want at most 32": many,
	} {
		err := CheckHello(&spatev1.Hello{Protocol: Protocol, Definitions: measure.Definitions, Incarnation: 1,
			Agent: &spatev1.AgentInfo{Name: "a", Labels: labels}})
		if got := status.Convert(err).Message(); got != want {
			t.Errorf("%v: %q, want %q", labels, got, want)
		}
	}
}

// The error names the refused number, so that a person can correct it.
func TestARefusedNumberIsNamed(t *testing.T) {
	err := CheckHello(&spatev1.Hello{Protocol: Protocol, Definitions: measure.Definitions, Incarnation: 1,
		Agent: &spatev1.AgentInfo{
			Name: "a", MaxRate: 100, Capacity: &spatev1.Capacity{Streams: 10, FramesPerSecond: 5e4,
				StartsPerSecond: math.NaN()},
		}})
	want := "agent a: its capacity.starts_per_second is NaN: want a number from 0 to 1e+12"
	if status.Convert(err).Message() != want {
		t.Errorf("it says %v, want %q", err, want)
	}
}

// A client with older or newer definitions than the coordinator's is refused. One that names none is not.
func TestCheckClient(t *testing.T) {
	for definitions, want := range map[uint32]bool{0: true, measure.Definitions: true,
		measure.Definitions - 1: false, measure.Definitions + 1: false} {
		if err := CheckClient(&spatev1.SubmitRunRequest{Definitions: definitions}); (err == nil) != want {
			t.Errorf("definitions %d: %v", definitions, err)
		}
	}
}
