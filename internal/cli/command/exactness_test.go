package command

import (
	"os"
	"testing"

	"github.com/spate-load/spate/agent/host"
)

// Where the system refuses the times of packets, on fails, auto says so in a line, and off does neither.
func TestPacketTimes(t *testing.T) {
	for _, c := range []struct {
		policy        host.Realtime
		refused       error
		use, ok, told bool
	}{
		{host.RealtimeAuto, nil, true, true, false},
		{host.RealtimeAuto, os.ErrPermission, false, true, true},
		{host.RealtimeOn, nil, true, true, false},
		{host.RealtimeOn, os.ErrPermission, false, false, false},
	} {
		lines := 0
		use, err := (&Exactness{PacketTimes: c.policy}).allowed(c.refused, func(string) { lines++ })
		if use != c.use || (err == nil) != c.ok || lines != map[bool]int{true: 1}[c.told] {
			t.Errorf("%s, refused %v: %t, %v, %d lines", c.policy, c.refused, use, err, lines)
		}
	}
	use, err := (&Exactness{PacketTimes: host.RealtimeOff}).UsePacketTimes(func(line string) { t.Error(line) })
	if use || err != nil {
		t.Errorf("off: %t, %v", use, err)
	}
}
