package agent

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(stoppableAgent); address != "" {
		os.Exit(runStoppable(address))
	}
	goleak.VerifyTestMain(m)
}
