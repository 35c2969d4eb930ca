package agent

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/internal/reason"
)

// connectError says why a session failed and what to do. Its cause is gRPC's error.
type connectError struct {
	address  string
	welcomed bool
	cause    error
}

// Error names the coordinator's address and what is wrong.
func (e *connectError) Error() string {
	text := reason.Of(e.cause)
	if text == reason.Broken && !e.welcomed {
		text = "closed the connection before its first message: see the coordinator's log; it may reject this " +
			"agent's certificate (another authority or role, see `spate certs --help`)"
	}
	return fmt.Sprintf("coordinator %s: %s", plainAddress(e.address), text)
}

// Unwrap returns gRPC's error.
func (e *connectError) Unwrap() error { return e.cause }

// plainAddress returns a gRPC target as a person would type it.
func plainAddress(target string) string {
	if i := strings.LastIndex(target, "/"); strings.Contains(target, "://") {
		return target[i+1:]
	}
	return target
}

// maxLoggedReasons bounds the reasons that are remembered. Beyond it all of them are forgotten, and logged again when
// they recur.
const maxLoggedReasons = 64

// loggedReasons are the reasons that were logged since the last stable session.
type loggedReasons map[string]bool

// isNew reports whether a reason has not been logged yet, and remembers it.
func (c *loggedReasons) isNew(err error) bool {
	text := err.Error()
	if (*c)[text] {
		return false
	}
	if *c == nil || len(*c) >= maxLoggedReasons {
		*c = loggedReasons{}
	}
	(*c)[text] = true
	return true
}
