package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// People read log lines: neither format has numbers of enums or codes of gRPC.
func TestLogsAreReadable(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		log, err := Logger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		broken := fmt.Errorf("no datasets: %w", status.Error(codes.Internal, "the disk is full"))
		log.Info("x", "outcome", spatev1.Outcome_OUTCOME_FAILED, "class", spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
			"odd", spatev1.Outcome(77), "error", broken, "none", error(nil), "other", errors.Join(broken))
		said := out.String()
		for _, want := range []string{"failed", "cut_stream", "77", "no datasets: the disk is full"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in %s", format, want, said)
			}
		}
		if strings.Contains(said, "rpc error") || strings.Contains(said, `"outcome":2`) {
			t.Errorf("%s: %s", format, said)
		}
	}
}
