package settings

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/agent/stream/socket"
)

// PacketTimes is the flag --packet-times of commands that run agents.
type PacketTimes bool

// AddFlag adds the flag.
func (p *PacketTimes) AddFlag(flags *pflag.FlagSet) {
	flags.BoolVar((*bool)(p), "packet-times", false,
		"give each frame the time of its own packet, even if this program is late to read it (Linux; root or CAP_BPF)")
}

// Check returns an error if the flag is given and the system does not allow it.
func (p PacketTimes) Check() error {
	if !p {
		return nil
	}
	if err := socket.CheckPacketTimes(); err != nil {
		return fmt.Errorf("--packet-times: %w", err)
	}
	return nil
}
