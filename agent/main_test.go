package agent

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/internal/process"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(stoppableAgent); address != "" {
		os.Exit(runStoppable(address))
	}
	process.Parallel(8)
	goleak.VerifyTestMain(m)
}

// stoppableAgent is the environment variable that makes the test program run an agent of the coordinator at that
// address.
const stoppableAgent = "SPATE_TEST_AGENT_OF"

// runStoppable runs an agent in its own process, until it is killed.
func runStoppable(address string) int {
	a, err := New(Config{
		Name: "a", Logger: slog.New(slog.DiscardHandler),
		Coordinator: func(context.Context) (string, error) { return "passthrough:///" + address, nil },
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		return 1
	}
	_ = a.Run(context.Background())
	return 0
}
