package agent

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/internal/reason"
)

// connectError is why a session failed, in words that say what to do. Its cause has gRPC's own.
type connectError struct {
	address  string
	welcomed bool
	cause    error
}

// Error names the coordinator's address and what is wrong there.
func (e *connectError) Error() string {
	text := reason.Of(e.cause)
	if text == reason.Broken && !e.welcomed {
		text = "ended the connection before it said anything: its log says why; it may not accept this agent's certificate (another authority " +
			"or role, see `spate certs --help`)"
	}
	return fmt.Sprintf("coordinator %s: %s", plainAddress(e.address), text)
}

// Unwrap returns what gRPC said.
func (e *connectError) Unwrap() error { return e.cause }

// plainAddress is a gRPC target as a person would type it.
func plainAddress(target string) string {
	if i := strings.LastIndex(target, "/"); strings.Contains(target, "://") {
		return target[i+1:]
	}
	return target
}

// mostComplaints bounds what is remembered: after that many different ones they are said again.
const mostComplaints = 64

// complaints are the reasons that were said since all was well.
type complaints map[string]bool

// isNew reports whether a reason was not said yet, and remembers it.
func (c *complaints) isNew(err error) bool {
	text := err.Error()
	if (*c)[text] {
		return false
	}
	if *c == nil || len(*c) >= mostComplaints {
		*c = complaints{}
	}
	(*c)[text] = true
	return true
}
