package relay

import (
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// An agent that connects again may be heard before the end of its old stream is noticed.
func TestAnAgentsOldStreamDoesNotForgetIt(t *testing.T) {
	var o origins
	hello := &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Incarnation: 7, Agent: &spatev1.AgentInfo{Name: "a", Region: "eu"},
	}}}
	k := &spatev1.SnapshotKey{Agent: "a", Incarnation: 7}
	o.heard(1, hello)
	o.heard(2, hello)
	o.forget(1, "a")
	if from, known := o.of(k); !known || from.region != "eu" {
		t.Errorf("known %v, from %+v", known, from)
	}
	o.forget(2, "a")
	if _, known := o.of(k); known {
		t.Error("it is still known")
	}
}
