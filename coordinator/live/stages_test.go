package live

import (
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestCommonWindows(t *testing.T) {
	rec := &spatev1.StageRecord{Agents: []*spatev1.AssignedAgent{
		{Agent: &spatev1.AgentInfo{Name: "a"}, Incarnation: 1}, {Agent: &spatev1.AgentInfo{Name: "b"}, Incarnation: 1},
	}}
	for want, w := range map[uint32]windows{
		7: {{Name: "a", Incarnation: 1}: 9, {Name: "b", Incarnation: 1}: 7, {Name: "b", Incarnation: 2}: 3},
		0: {{Name: "a", Incarnation: 1}: 9},
	} {
		if got := w.common(rec); got != want {
			t.Errorf("%v: %d, want %d", w, got, want)
		}
	}
	if got := (windows{}).common(&spatev1.StageRecord{}); got != 0 {
		t.Errorf("no agents: %d", got)
	}
}
