package reason

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
)

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
			if said := Plain(err.Error()); machine.MatchString(said) || said == "" {
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
		{errors.New(`strconv.ParseUint: parsing "-3": invalid syntax`), errors.New("want a whole number, 0 or more")},
		{errors.New("nothing to change"), errors.New("nothing to change")},
	} {
		if got := Plain(c.err.Error()); got != c.want.Error() {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
