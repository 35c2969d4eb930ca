package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// This file stores the highest load at which a machine's agent measures exactly. Calibration writes it, and the
// agent reads it and reports it to its coordinator. It is one small file that names its machine, and it is rejected on
// any other machine. Commands call the package.

// Capacity is the highest load at which a machine's agent stayed exact.
type Capacity struct {
	// Streams is the number of streams at once. 0: not measured.
	Streams int `json:"streams"`
	// FramesPerSecond is the frame rate over these streams.
	FramesPerSecond float64 `json:"frames_per_second"`
	// StartsPerSecond is the number of requests started per second. 0: not measured.
	StartsPerSecond float64 `json:"starts_per_second"`
	// MeasuredAt is when the capacity was measured.
	MeasuredAt time.Time `json:"measured_at"`
	// Machine is where the capacity was measured.
	Machine Machine `json:"machine"`
}

// Proto returns the capacity in the form that agents send.
func (c *Capacity) Proto() *spatev1.Capacity {
	return &spatev1.Capacity{
		Streams: uint32(c.Streams), FramesPerSecond: c.FramesPerSecond, StartsPerSecond: c.StartsPerSecond,
		MeasuredAt: timestamppb.New(c.MeasuredAt),
	}
}

// check returns an error for values that no calibration writes.
func (c *Capacity) check() error {
	if c.Streams < 0 || int64(c.Streams) > 1<<31-1 || !(c.FramesPerSecond >= 0 && c.FramesPerSecond < 1e12) ||
		!(c.StartsPerSecond >= 0 && c.StartsPerSecond < 1e12) {
		return errors.New("a number is out of range")
	}
	if c.Machine.Host == "" || c.MeasuredAt.IsZero() {
		return errors.New("its machine or its time of measurement is missing")
	}
	return nil
}

// CapacityPath returns the default path of a machine's capacity: in the user's configuration directory, where an agent
// looks for it.
func CapacityPath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		dir = os.TempDir() // no home directory, as in a container or for a system service
	}
	return filepath.Join(dir, "spate", "capacity.json")
}

// ErrNotFound is wrapped by ReadCapacity's error if there is no file.
var ErrNotFound = errors.New("the file does not exist")

// ErrOtherMachine is wrapped by ReadCapacity's error if the file is about another machine.
var ErrOtherMachine = errors.New("it was measured on another machine")

// ErrDamaged is wrapped by ReadCapacity's error if the file is not as it was written.
var ErrDamaged = errors.New("it is damaged")

// stored is the content of the file.
type stored struct {
	Capacity
	// Checksum is that of the capacity.
	Checksum string `json:"checksum"`
}

// checksum returns the checksum of a capacity.
func (c *Capacity) checksum() string {
	text, _ := json.Marshal(c) // numbers are finite: see check
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text))
}

// SetCapacityAside renames a damaged file, and returns its new name.
func SetCapacityAside(path string) (string, error) {
	return path + ".damaged", os.Rename(path, path+".damaged")
}

// maxFile is the maximum size of the file, in bytes.
const maxFile = 1 << 20

// ReadCapacity reads a file. Its error wraps ErrNotFound if there is no file, ErrDamaged if the file is not as it was
// written, and ErrOtherMachine if the capacity was measured on another machine than here.
func ReadCapacity(path string, here Machine) (*Capacity, error) {
	text, err := files.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("capacity %s: %w; spate calibrate creates it", path, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	var s stored
	err = json.Unmarshal(text, &s)
	c := s.Capacity
	if err == nil {
		err = c.check()
	}
	if err == nil && c.checksum() != s.Checksum {
		err = errors.New("its checksum is wrong")
	}
	if err != nil {
		return nil, fmt.Errorf("capacity %s: %w: %w; run spate calibrate again", path, ErrDamaged, err)
	}
	if difference := c.Machine.difference(here); difference != "" {
		return nil, fmt.Errorf("capacity %s: %w (%s); run spate calibrate here", path, ErrOtherMachine, difference)
	}
	return &c, nil
}

// WriteCapacity writes a file completely or not at all. It creates the directory.
func WriteCapacity(path string, c *Capacity) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	text, err := json.MarshalIndent(stored{*c, c.checksum()}, "", "  ")
	if err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	if err := files.Replace(path, append(text, '\n')); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	return nil
}
