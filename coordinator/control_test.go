package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The reason why an agent was lost is in the ledger and in results. It is for people, so it contains no gRPC codes,
// however deeply nested.
func TestReasonsHaveNoGRPCCodes(t *testing.T) {
	broken := status.Error(codes.Unavailable, "the connection was reset")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "it closed its control stream"},
		{status.FromContextError(context.Canceled).Err(), "control stream broken"},
		{broken, "control stream ended: the connection was reset"},
		{fmt.Errorf("hello: %w", broken), "control stream ended: hello: the connection was reset"},
		{errors.Join(broken, io.ErrUnexpectedEOF), "control stream ended: the connection was reset\nunexpected EOF"},
	} {
		if got := reasonOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
