package clustertest_test

import (
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/compare/history"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/internal/process"
)

func TestMain(m *testing.M) {
	process.Parallel(8)
	goleak.VerifyTestMain(m)
}

// harness is a coordinator with a client, in one process.
type harness struct {
	*clustertest.Cluster
	c       *coordinator.Coordinator
	dataDir string
}

// start lets a coordinator serve until the test ends. Its agents may be silent, because agents in the tests send no
// heartbeats unless a test is about heartbeats.
func start(t *testing.T, change ...func(*coordinator.Config)) *harness {
	t.Helper()
	cfg := coordinator.Config{
		DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Version: "test",
		Run:         lifecycle.Config{Silence: time.Hour},
		OpenHistory: func(dir string, log *slog.Logger) (coordinator.History, error) { return history.Open(dir, log) },
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := coordinator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &harness{Cluster: clustertest.Serve(t, c), c: c, dataDir: cfg.DataDir}
}
