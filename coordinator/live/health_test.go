package live

import (
	"fmt"
	"testing"

	"github.com/spate-load/spate/aggregate/sink"
)

// Beyond the bound only the first agents by name are written, whatever their order.
func TestHealthIsBounded(t *testing.T) {
	h := &Health{}
	for range 2 {
		all := make([]sink.AgentPoint, maxHealth+2)
		for i := range all {
			all[i].Agent = fmt.Sprintf("%04d", len(all)-i)
		}
		got := h.bound(all)
		if len(got) != maxHealth || got[0].Agent != "0001" || got[maxHealth-1].Agent != "1000" {
			t.Errorf("%d agents from %s to %s", len(got), got[0].Agent, got[len(got)-1].Agent)
		}
	}
}
