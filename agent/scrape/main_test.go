package scrape

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/process"
)

func TestMain(m *testing.M) {
	process.Parallel(8)
	goleak.VerifyTestMain(m)
}
