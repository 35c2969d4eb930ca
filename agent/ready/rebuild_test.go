package ready

import (
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A stage whose rows are not on this machine says so, and does not wait for a coordinator.
func TestRebuildWithoutRows(t *testing.T) {
	rec := &spatev1.StageRecord{Stage: &spatev1.Stage{
		Target:   &spatev1.Target{Name: "t", Api: "chat", Endpoints: []string{"http://127.0.0.1:1"}},
		Workload: &spatev1.Workload{Name: "w", Content: &spatev1.Workload_Sharegpt{}},
		Dataset:  &spatev1.Dataset{Sha256: strings.Repeat("a", 64), Size: 9, Rows: 1},
	}}
	if _, err := Rebuild("run", rec, t.TempDir()); err == nil || !strings.Contains(err.Error(), errNotHere.Error()) {
		t.Errorf("%v", err)
	}
}
