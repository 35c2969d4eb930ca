package ledger

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(appendUntilKilled); path != "" {
		appendForever(path)
	}
	goleak.VerifyTestMain(m)
}
