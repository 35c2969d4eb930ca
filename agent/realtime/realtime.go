// Package realtime runs the threads of a process ahead of the machine's ordinary work, so that other load on the same
// cores (such as an engine on a workstation) delays neither sends nor reads. The commands that run agents call it once,
// before load starts.
package realtime

import (
	"errors"
	"fmt"
	"log/slog"
)

// Policy decides whether a process uses real-time scheduling. It is the value of a flag.
type Policy string

// Auto uses real-time scheduling where the system allows it, On fails where the system does not, and Off leaves
// scheduling alone.
const (
	Auto Policy = "auto"
	On   Policy = "on"
	Off  Policy = "off"
)

// Usage is the flag's help text.
const Usage = "real-time scheduling for this process, so that other work on its cores does not delay it: auto uses " +
	"it if the system allows it"

// ErrNotAllowed is returned where the system has no real-time scheduling, or does not allow it to this user.
var ErrNotAllowed = errors.New("real-time scheduling is not allowed here: run as root, or grant CAP_SYS_NICE or a " +
	"real-time priority limit of 1 (ulimit -r)")

// String returns the value.
func (p *Policy) String() string { return string(*p) }

// Type returns the placeholder of the value in help texts.
func (p *Policy) Type() string { return "auto|on|off" }

// Set parses a value.
func (p *Policy) Set(text string) error {
	switch Policy(text) {
	case Auto, On, Off:
		*p = Policy(text)
		return nil
	default:
		return fmt.Errorf("%q: want auto, on or off", text)
	}
}

// Apply gives every thread of the process, and every thread created later, the lowest real-time priority (SCHED_RR, 1).
// The kernel still reserves a share of each core for other work. The error is ErrNotAllowed, or an error of the system.
// Under Auto an error is only logged.
func (p Policy) Apply(logger *slog.Logger) error {
	if p == Off {
		return nil
	}
	err := apply()
	switch {
	case err == nil:
		logger.Info("real-time scheduling is on")
	case p == On:
		return fmt.Errorf("--realtime on: %w", err)
	default:
		logger.Info("real-time scheduling is off: other work on these cores may delay this process", "reason", err)
	}
	return nil
}
