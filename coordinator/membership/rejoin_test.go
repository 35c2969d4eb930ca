package membership

import (
	"errors"
	"testing"
)

// listed is a list of errors like memberlist's.
type listed []error

func (l listed) Error() string          { return "2 errors occurred:\n\t* one\n\t* two\n\n" }
func (l listed) WrappedErrors() []error { return l }

// TestReasons: memberlist's errors of several lines become one line.
func TestReasons(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("refused"), "refused"},
		{listed{errors.New("failed to join a: EOF")}, "failed to join a: EOF"},
		{listed{errors.New("one"), errors.New("two")}, "one; two"},
	} {
		if got := reasons(test.err); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
