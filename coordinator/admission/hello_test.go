package admission

import (
	"math"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
