package host

import (
	"errors"
	"fmt"
	"log/slog"
)

// This file runs the threads of a process ahead of the machine's ordinary work, so that other load on the same
// cores (such as an engine on a workstation) delays neither sends nor reads. The commands that run agents call it once,
// before load starts.

// Realtime decides whether a process uses real-time scheduling. It is the value of a flag.
type Realtime string

// RealtimeAuto uses real-time scheduling where the system allows it, RealtimeOn fails where the system does not, and
// RealtimeOff leaves scheduling alone.
const (
	RealtimeAuto Realtime = "auto"
	RealtimeOn   Realtime = "on"
	RealtimeOff  Realtime = "off"
)

// ErrNotAllowed is returned where the system has no real-time scheduling, or does not allow it to this user.
var ErrNotAllowed = errors.New("real-time scheduling is not allowed here: run as root, or grant CAP_SYS_NICE or a " +
	"real-time priority limit of 1 (ulimit -r)")

// String returns the value.
func (p *Realtime) String() string { return string(*p) }

// Type returns the placeholder of the value in help texts.
func (p *Realtime) Type() string { return "auto|on|off" }

// Set parses a value.
func (p *Realtime) Set(text string) error {
	switch Realtime(text) {
	case RealtimeAuto, RealtimeOn, RealtimeOff:
		*p = Realtime(text)
		return nil
	default:
		return fmt.Errorf("%q: want auto, on or off", text)
	}
}

// Apply gives every thread of the process, and every thread created later, the lowest real-time priority (SCHED_RR, 1).
// The kernel still reserves a share of each core for other work. The error is ErrNotAllowed, or an error of the system.
// Under RealtimeAuto an error is only logged.
func (p Realtime) Apply(logger *slog.Logger) error {
	if p == RealtimeOff {
		return nil
	}
	err := apply()
	switch {
	case err == nil:
		logger.Info("real-time scheduling is on")
	case p == RealtimeOn:
		return fmt.Errorf("--realtime on: %w", err)
	default:
		logger.Info("real-time scheduling is off: other work on these cores may delay this process", "reason", err)
	}
	return nil
}
