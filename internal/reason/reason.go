// Package reason explains why a coordinator cannot be reached, why a connection to it broke, or why a target is
// skipped, so that a person knows what to do. It must not decide whether to retry.
package reason

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// If returns an error if something is wrong, so that all checks of a configuration are one list.
func If(wrong bool, format string, args ...any) error {
	if wrong {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// Broken describes a connection that ended without an error message.
const Broken = "the connection broke"

// Of explains an error of a call to a coordinator. The coordinator is the subject of the words.
func Of(err error) string {
	answer, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err)
	if !ok {
		return err.Error()
	}
	switch s := answer.GRPCStatus(); {
	case s.Code() == codes.Unavailable, s.Code() == codes.DeadlineExceeded:
		return ofTransport(s.Message())
	case s.Code() == codes.Unimplemented:
		return "what answers there is not a Spate coordinator of this version: check the address and the port"
	default:
		return s.Message()
	}
}

// meanings maps texts in gRPC's errors to explanations, with a tab between them; the first match counts. The texts
// come from the operating system, from Go's TLS and from gRPC.
//
//go:embed meanings.tsv
var meanings string

// ofTransport explains a text about a connection. An unknown text is returned without gRPC's wrapping.
func ofTransport(text string) string {
	for line := range strings.Lines(meanings) {
		if found, meaning, _ := strings.Cut(strings.TrimSpace(line), "\t"); strings.Contains(text, found) {
			return meaning
		}
	}
	if _, inner, found := strings.Cut(text, "connection error: desc = "); found {
		if plain, err := strconv.Unquote(inner); err == nil {
			text = plain
		}
	}
	return strings.TrimPrefix(text, "transport: ")
}

// Unsent returns why a message could not be sent on a stream of gRPC. io.EOF means that the stream has ended and only
// Recv has the reason: Unsent then blocks until ctx has ended, which the caller of Recv must do.
func Unsent(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// plainer rewrites errors of Go and gRPC in terms of what a person typed. All patterns are applied, in order.
var plainer = []struct {
	pattern *regexp.Regexp
	plain   string
}{
	{regexp.MustCompile(`rpc error: code = \w+ desc = `), ""},
	{regexp.MustCompile(`strconv\.\w+: parsing "(?:[^"\\]|\\.)*": value out of range`), "the number is out of range"},
	{regexp.MustCompile(`strconv\.ParseUint: parsing "-[0-9]+": invalid syntax`), "want no negative number"},
	{regexp.MustCompile(`strconv\.(?:ParseUint|ParseInt|Atoi): parsing "(?:[^"\\]|\\.)*": invalid syntax`),
		"want a whole number"},
	{regexp.MustCompile(`strconv\.ParseFloat: parsing "(?:[^"\\]|\\.)*": invalid syntax`), "want a number"},
	{regexp.MustCompile(`strconv\.ParseBool: parsing "(?:[^"\\]|\\.)*": invalid syntax`), "want true or false"},
	{regexp.MustCompile(`time: (?:invalid|missing unit in|unknown unit "(?:[^"\\]|\\.)*" in) duration "(?:[^"\\]|\\.)*"`),
		"want a time with its unit, such as 500ms, 30s or 5m"},
}

// Plain removes the names of Go functions and gRPC codes from a message for people. Programs call it where a message
// leaves them: on standard error and in logs.
func Plain(text string) string {
	for _, p := range plainer {
		text = p.pattern.ReplaceAllString(text, p.plain)
	}
	return text
}

// HopelessTarget explains why a run skips the rest of a target, and how to send the target its whole load anyway.
func HopelessTarget(target, why string) string {
	return "target " + target + " is hopeless: " + why + "; fail_fast: false sends the rest anyway"
}
