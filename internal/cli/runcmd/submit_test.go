package runcmd

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/command"
)

// A connection that was never made has started nothing. One that broke before the answer may have started a run, and a
// user who is told that nothing was started would start it twice.
func TestSubmitErrorReportsAPossibleStart(t *testing.T) {
	for _, c := range []struct {
		code    codes.Code
		message string
		want    int
		says    string
	}{
		{codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`, command.ExitInput, "cannot be reached"},
		{codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: tls: bad certificate"`, command.ExitInput, "cannot be reached"},
		{codes.Unavailable, `connection error: desc = "error reading server preface: http2: frame too large"`, command.ExitInput, "is not a Spate coordinator"},
		{codes.Unavailable, "name resolver error: produced zero addresses", command.ExitInput, "cannot be reached"},
		{codes.Unavailable, "error reading from server: EOF", command.ExitFault, "may have started"},
		{codes.Unavailable, "the coordinator is closing", command.ExitFault, "may have started"},
		{codes.ResourceExhausted, "64 runs wait", command.ExitInput, "refused the run: 64 runs wait"},
		{codes.PermissionDenied, "agents may not", command.ExitInput, "refused: agents may not"},
		{codes.Internal, "disk", command.ExitFault, "cannot submit the run"},
	} {
		err := submitError("10.0.0.1:7700", status.Error(c.code, c.message))
		if got := command.ExitCode(err); got != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v %q: exit code %d, %v; want %d and %q", c.code, c.message, got, err, c.want, c.says)
		}
	}
}
