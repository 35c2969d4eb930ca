// Package capacity keeps what calibration found that a machine's agent does exactly, from the command that finds it out
// to the agent that tells its coordinator. It is one small file, good for one machine: it says which, and is not taken
// on another. Commands call it.
package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/internal/bounded"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Capacity is the highest load at which a machine's agent stayed exact.
type Capacity struct {
	// Streams at once. 0: it was not measured.
	Streams int `json:"streams"`
	// FramesPerSecond over these streams.
	FramesPerSecond float64 `json:"frames_per_second"`
	// StartsPerSecond is requests started per second. 0: it was not measured.
	StartsPerSecond float64 `json:"starts_per_second"`
	// MeasuredAt is when.
	MeasuredAt time.Time `json:"measured_at"`
	// Machine that it was measured on.
	Machine Machine `json:"machine"`
}

// Proto is the capacity as agents tell it.
func (c *Capacity) Proto() *spatev1.Capacity {
	return &spatev1.Capacity{
		Streams: uint32(c.Streams), FramesPerSecond: c.FramesPerSecond, StartsPerSecond: c.StartsPerSecond,
		MeasuredAt: timestamppb.New(c.MeasuredAt),
	}
}

// check returns an error for what no calibration writes.
func (c *Capacity) check() error {
	if c.Streams < 0 || int64(c.Streams) > 1<<31-1 || !(c.FramesPerSecond >= 0 && c.FramesPerSecond < 1e12) ||
		!(c.StartsPerSecond >= 0 && c.StartsPerSecond < 1e12) {
		return errors.New("its numbers are none that calibration finds")
	}
	if c.Machine.Host == "" || c.MeasuredAt.IsZero() {
		return errors.New("it does not say which machine it is of, or when it was measured")
	}
	return nil
}

// DefaultPath is where a machine's capacity is kept unless something else is said: in the user's configuration, from
// which an agent reads it.
func DefaultPath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		dir = os.TempDir() // no home directory, as in a container or for a system service
	}
	return filepath.Join(dir, "spate", "capacity.json")
}

// ErrNone is wrapped by Read's error where there is no file.
var ErrNone = errors.New("there is none")

// ErrOther is wrapped by Read's error if the file is of another machine.
var ErrOther = errors.New("it is of another machine")

// maxFile is the most that the file may have, in bytes.
const maxFile = 1 << 20

// Read reads a file, and refuses what was not measured on the machine that is given: with ErrOther. If there is no file
// it is ErrNone.
func Read(path string, here Machine) (*Capacity, error) {
	text, err := bounded.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("capacity %s: %w; spate calibrate makes it", path, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("capacity: %w", err)
	}
	var c Capacity
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("capacity %s: %w; run spate calibrate again", path, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("capacity %s: %w; run spate calibrate again", path, err)
	}
	if other := c.Machine.unlike(here); other != "" {
		return nil, fmt.Errorf("capacity %s: %w (%s); run spate calibrate here", path, ErrOther, other)
	}
	return &c, nil
}

// Write writes a file as a whole or not at all. It makes the folder.
func Write(path string, c *Capacity) (err error) {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".capacity-*")
	if err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, written := file.Write(append(text, '\n'))
	if err := errors.Join(written, file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("capacity: %w", err)
	}
	return nil
}
