package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/internal/files"
)

// Size is a number of bytes as a person writes it: 500MB, 32GiB, 4096. It is the value of a flag.
type Size uint64

// units of sizes. Of units with the same ending, the longer one is first.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},
	{"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// String returns the size in the largest unit, by 1024, that divides it.
func (s *Size) String() string {
	for _, u := range []int{3, 2, 1, 0} {
		if unit := uint64(units[u].bytes); uint64(*s) >= unit && uint64(*s)%unit == 0 {
			return strconv.FormatUint(uint64(*s)/unit, 10) + units[u].name
		}
	}
	return strconv.FormatUint(uint64(*s), 10)
}

// Type returns the name of the value in --help.
func (s *Size) Type() string { return "size" }

// Set parses what a person wrote.
func (s *Size) Set(text string) error {
	number, factor := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0) || n*factor >= 1<<62 {
		return fmt.Errorf("%q: want a size such as 500MB or 32GiB", text)
	}
	*s = Size(n * factor)
	return nil
}

// Keep holds flags that limit items which take up space. 0 means no limit. In its tags, KEPT are the items in names of
// flags, WHAT in help texts, and AGE and SPACE are the defaults.
type Keep struct {
	Count int           `flag:"keep-KEPT" help:"delete the oldest WHAT beyond this <number> (0: not limited)"`
	For   time.Duration `flag:"keep-KEPT-for" default:"AGE" help:"delete WHAT older than this (0: not limited)"`
	Size  Size          `flag:"keep-KEPT-size" default:"SPACE" help:"delete the oldest WHAT beyond this total <size> (0: not limited)"`
}

// Check returns an error if a value is negative.
func (k *Keep) Check(name string) error {
	if k.For < 0 || k.Count < 0 {
		return fmt.Errorf("--keep-%s %d, --keep-%s-for %v: want 0 or more", name, k.Count, name, k.For)
	}
	return nil
}

// Limits returns the limits for package retention.
func (k *Keep) Limits() files.Limits {
	return files.Limits{Age: k.For, Bytes: uint64(k.Size), Count: k.Count}
}

// DatasetDir returns the default directory of datasets. It is in the user's cache, where the programs of one machine
// share the datasets and the next run finds them.
func DatasetDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir() // there is no home directory, as in a container or for a system service
	}
	return filepath.Join(dir, "spate", "datasets")
}

// DatasetLimits are the limits for a user's own datasets.
var DatasetLimits = files.Limits{Age: 90 * 24 * time.Hour, Bytes: 32 << 30}

// MaxDataset returns the most bytes of text that a file of rows may have: SPATE_DATASET_MAX_SIZE in the environment, or
// 64 GiB.
func MaxDataset() (uint64, error) {
	most := Size(64 << 30)
	if text := os.Getenv("SPATE_DATASET_MAX_SIZE"); text != "" {
		if err := most.Set(text); err != nil {
			return 0, fmt.Errorf("SPATE_DATASET_MAX_SIZE: %w", err)
		}
	}
	return uint64(most), nil
}

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
