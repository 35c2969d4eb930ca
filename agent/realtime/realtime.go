// Package realtime puts the threads of a process ahead of the machine's ordinary work, so that a busy machine (an
// engine on the same cores, as on a workstation) delays neither sends nor reads. The commands that run agents call it
// once, before load begins.
package realtime

import (
	"errors"
	"fmt"
	"log/slog"
)

// Policy says whether a process takes real-time scheduling. It is the value of a flag.
type Policy string

// Auto takes real-time scheduling where the system allows it, On fails where it does not, Off leaves scheduling alone.
const (
	Auto Policy = "auto"
	On   Policy = "on"
	Off  Policy = "off"
)

// Usage is what --help says of the flag.
const Usage = "real-time scheduling for this process, so that other work on its cores does not delay it: auto takes it where the system allows it"

// ErrNotAllowed is a system that has no real-time scheduling, or not for this user.
var ErrNotAllowed = errors.New("real-time scheduling is not allowed here: run as root, or grant CAP_SYS_NICE or a real-time priority limit of 1 (ulimit -r)")

// String is the value.
func (p *Policy) String() string { return string(*p) }

// Type is how --help names the value.
func (p *Policy) Type() string { return "auto|on|off" }

// Set reads a value.
func (p *Policy) Set(text string) error {
	switch Policy(text) {
	case Auto, On, Off:
		*p = Policy(text)
		return nil
	default:
		return fmt.Errorf("%q: want auto, on or off", text)
	}
}

// Apply gives every thread of the process the lowest real-time priority (SCHED_RR, 1), and with it every thread made
// later. The kernel leaves a share of each core to others even then. The error is ErrNotAllowed, or a fault of the
// system's; under Auto it is only logged.
func (p Policy) Apply(logger *slog.Logger) error {
	if p == Off {
		return nil
	}
	err := take()
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
