package membership

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
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

// TestWarningOfSeeds: who names a coordinator's own address as a seed reads what to give instead.
func TestWarningOfSeeds(t *testing.T) {
	var log bytes.Buffer
	c := &Cluster{log: slog.New(slog.NewTextHandler(&log, nil))}
	c.report(errors.New("refused"), "")
	for _, want := range []string{"refused", "--coordinator HOST:PORT", "spate://"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in %s", want, log.String())
		}
	}
}
