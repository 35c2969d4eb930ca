package clustercmd

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestAgentsAsJSON(t *testing.T) {
	var out strings.Builder
	err := writeJSON(&out, agentsAsJSON([]*spatev1.AgentStatus{
		{Agent: &spatev1.AgentInfo{Name: "found"}, Health: spatev1.AgentHealth_AGENT_HEALTH_FOUND},
		{
			Agent: &spatev1.AgentInfo{
				Name: "busy", Region: "eu", Weight: 2, MaxRate: 50, Labels: map[string]string{"pool": "big"}, WeightGiven: true,
				Capacity: &spatev1.Capacity{Streams: 10, FramesPerSecond: 500.5},
			},
			Health:    spatev1.AgentHealth_AGENT_HEALTH_BUSY,
			Heartbeat: &spatev1.Heartbeat{CpuCores: 0.5, ClockOffsetNs: -5, ClockUncertaintyNs: 1000},
			Cordon:    spatev1.Cordon_CORDON_DRAINING, SilentFor: durationpb.New(250 * time.Millisecond), Address: "10.0.0.2:34567",
		},
	}))
	want := [2]string{
		`"name": "found", "region": null, "labels": null, "health": "found", "cordon": null, "weight": null, "cores": null, "max_streams": null, "max_rate": null, "in_flight": null, "cpu_cores": null, "clock_offset_ns": null, "clock_uncertainty_ns": null, "weight_given": null, "capacity": null, "silent_for_seconds": null, "address": null, "host": null, "version": null`,
		`"name": "busy", "region": "eu", "labels": { "pool": "big" }, "health": "busy", "cordon": "draining", "weight": 2, "cores": null, "max_streams": null, "max_rate": 50, "in_flight": 0, "cpu_cores": 0.5, "clock_offset_ns": -5, "clock_uncertainty_ns": 1000, "weight_given": true, "capacity": { "streams": 10, "frames_per_second": 500.5, "starts_per_second": null, "measured_at": null }, "silent_for_seconds": 0.25, "address": "10.0.0.2:34567", "host": null, "version": null`,
	}
	if got := strings.Join(strings.Fields(out.String()), " "); err != nil || got != "[ { "+want[0]+" }, { "+
		want[1]+" } ]" {
		t.Errorf("%v: %s", err, got)
	}
}
