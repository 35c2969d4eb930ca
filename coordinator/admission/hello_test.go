package admission

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
