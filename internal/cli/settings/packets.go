package settings

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/agent/stream/socket"
)

// PacketTimes is the flag --packet-times of commands that run agents.
type PacketTimes host.Realtime

// AddFlag adds the flag, whose default is auto.
func (p *PacketTimes) AddFlag(flags *pflag.FlagSet) {
	*p = PacketTimes(host.RealtimeAuto)
	flags.Var((*host.Realtime)(p), "packet-times", "give each frame the time of its own packet, even if this program "+
		"is late to read it (Linux; root or CAP_BPF): auto does so if the system allows it")
}

// Use reports whether frames get the times of their packets. It tries once whether the system allows it. If the system
// refuses, on is an error, and under auto tell gets a line that says why and what it changes.
func (p PacketTimes) Use(tell func(line string)) (bool, error) {
	if p == PacketTimes(host.RealtimeOff) {
		return false, nil
	}
	return p.allowed(socket.CheckPacketTimes(), tell)
}

// allowed is Use where err is what the system says.
func (p PacketTimes) allowed(err error, tell func(line string)) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case p == PacketTimes(host.RealtimeOn):
		return false, fmt.Errorf("--packet-times on: %w", err)
	}
	why := err.Error()
	if errors.Is(err, os.ErrPermission) {
		why = "times of packets need root or CAP_BPF"
	}
	tell("frames that are read late share one time: " + why + " (--packet-times off omits this line)")
	return false, nil
}
