package access

import (
	"os"
	"strings"
	"testing"
)

func TestRoomIsWhatFilesAndMemoryAllow(t *testing.T) {
	for name, c := range map[string]struct {
		room room
		most int
		by   string
	}{
		"files":         {room{20_000, 64 << 30}, 20_000 - spareFiles, "20000 open files allow: raise"},
		"memory":        {room{1 << 20, 8 << 30}, 8 << 30 / 2 / connectionMemory, "8192 MiB of memory allow"},
		"many":          {room{1 << 20, 64 << 30}, 64 << 30 / 2 / connectionMemory, "65536 MiB"},
		"no files":      {room{memory: 8 << 30}, 8 << 30 / 2 / connectionMemory, "8192 MiB"},
		"nothing known": {room{}, unlimited, "this system allows"},
		"a low limit":   {room{256, 64 << 20}, leastConnections, "256 open files"},
	} {
		if most, by := c.room.connections(); most != c.most || !strings.Contains(by, c.by) {
			t.Errorf("%s: %d connections, %q; want %d, %q", name, most, by, c.most, c.by)
		}
	}
}

func TestThisMachineHasRoom(t *testing.T) {
	r := machineRoom()
	if most, by := r.connections(); most < leastConnections {
		t.Errorf("%d connections, as %s", most, by)
	}
	if _, err := os.Stat("/proc/meminfo"); err == nil && r.memory == 0 {
		t.Error("the memory is not known")
	}
}
