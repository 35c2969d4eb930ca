package command

import (
	"errors"
	"fmt"
	"os"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/agent/stream/socket"
)

// Exactness are the flags of commands that run agents about how exact times are.
type Exactness struct {
	Realtime    host.Realtime `flag:"realtime" default:"auto" help:"real-time scheduling for this process, so that other work on its cores does not delay it: auto uses it if the system allows it"`
	PacketTimes host.Realtime `flag:"packet-times" default:"auto" help:"give each frame the time of its own packet, even if this program is late to read it (Linux; root or CAP_BPF): auto does so if the system allows it"`
}

// UsePacketTimes reports whether frames get the times of their packets. It tries once whether the system allows it. If
// the system refuses, on is an error, and under auto tell gets a line that says why and what it changes.
func (e *Exactness) UsePacketTimes(tell func(line string)) (bool, error) {
	if e.PacketTimes == host.RealtimeOff {
		return false, nil
	}
	return e.allowed(socket.CheckPacketTimes(), tell)
}

// allowed is UsePacketTimes where err is what the system says.
func (e *Exactness) allowed(err error, tell func(line string)) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case e.PacketTimes == host.RealtimeOn:
		return false, fmt.Errorf("--packet-times on: %w", err)
	}
	why := err.Error()
	if errors.Is(err, os.ErrPermission) {
		why = "times of packets need root or CAP_BPF"
	}
	tell("frames that are read late share one time: " + why + " (--packet-times off omits this line)")
	return false, nil
}
