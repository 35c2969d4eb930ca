package reason_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/reason"
)

// TestOf: every text has its explanation, and an unknown text is returned as it is.
func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"not gRPC's": {errors.New("the coordinator's address: none"), "the coordinator's address: none"},
		"no route": {status.Error(codes.Unavailable,
			`connection error: desc = "transport: Error while dialing: dial tcp 10.9.9.9:1: connect: no route to host"`), "there is no route to it: check the address, the network and firewalls"},
		"no name": {status.Error(codes.Unavailable,
			`connection error: desc = "transport: Error while dialing: dial tcp: lookup spate on 1.1.1.1:53: no such host"`), "the name is not known: check its spelling and DNS"},
		"no DNS": {status.Error(codes.Unavailable, `name resolver error: produced zero addresses`),
			"the name cannot be looked up: check its spelling and DNS"},
		"no answer": {status.Error(codes.Unavailable,
			`connection error: desc = "transport: Error while dialing: dial tcp 10.9.9.9:1: i/o timeout"`),
			"does not answer: see that the machine is up, and that no firewall drops the port"},
		"broken": {status.Error(codes.Unavailable,
			"error reading from server: read tcp 10.0.0.1:34567->10.0.0.2:7700: read: connection reset by peer"),
			"the connection broke"},
		"unknown": {status.Error(codes.Unavailable, `connection error: desc = "transport: something \"new\""`),
			`something "new"`},
		"its own":     {status.Error(codes.AlreadyExists, "agent name a is taken"), "agent name a is taken"},
		"its closing": {status.Error(codes.Unavailable, "the coordinator is closing"), "the coordinator is closing"},
		"late": {status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
			"does not answer: see that the machine is up, and that no firewall drops the port"},
		"web server": {status.Error(codes.Unavailable,
			"unexpected HTTP status code received from server: 404 (Not Found)"),
			"what answers there is not a Spate coordinator: check the address and the port"},
		"wrapped": {fmt.Errorf("clock probe: %w",
			status.Error(codes.Unavailable, "error reading from server: EOF")), "the connection broke"},
	} {
		if got := reason.Of(c.err); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}

// machine matches what no person should have to read.
var machine = regexp.MustCompile(`strconv\.|rpc error|code = |desc = |time: `)

// Whatever a person types for a flag of any type, the message says what is wanted and names no function of Go.
func TestPlainFlags(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Uint64("uint", 0, "")
	flags.Int("int", 0, "")
	flags.Float64("float", 0, "")
	flags.Bool("bool", false, "")
	flags.Duration("duration", time.Second, "")
	flags.UintSlice("uints", nil, "")
	flags.Float64Slice("floats", nil, "")
	for _, name := range []string{"uint", "int", "float", "bool", "duration", "uints", "floats"} {
		for _, typed := range []string{"abc", "", "-3x", `a"b`, "1e999", "99999999999999999999999", "5 q"} {
			err := flags.Set(name, typed)
			if err == nil {
				continue
			}
			if said := reason.Plain(err.Error()); machine.MatchString(said) || said == "" {
				t.Errorf("--%s %q: %s", name, typed, said)
			}
		}
	}
}

func TestPlain(t *testing.T) {
	broken := status.Error(codes.Internal, "the disk is full")
	for _, c := range []struct{ err, want error }{
		{fmt.Errorf("cannot be submitted: %w", broken), errors.New("cannot be submitted: the disk is full")},
		{errors.Join(broken, broken), errors.New("the disk is full\nthe disk is full")},
		{errors.New(`strconv.ParseUint: parsing "-3": invalid syntax`), errors.New("want no negative number")},
		{errors.New(`strconv.ParseUint: parsing "x": invalid syntax`), errors.New("want a whole number")},
		{errors.New("nothing to change"), errors.New("nothing to change")},
	} {
		if got := reason.Plain(c.err.Error()); got != c.want.Error() {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
