package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/filestest"
)

var machine = Machine{ID: "m1", Host: "box", Cores: 8, Kernel: "linux 6.8", Version: "v1"}

func found() *Capacity {
	return &Capacity{Streams: 1000, FramesPerSecond: 49_987.5, StartsPerSecond: 4000,
		MeasuredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Machine: machine}
}

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "capacity.json")
	for range 2 { // the second replaces the first
		if err := WriteCapacity(path, found()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadCapacity(path, machine)
	if err != nil || *got != *found() {
		t.Fatalf("%+v, %v", got, err)
	}
	p := got.Proto()
	if p.GetStreams() != 1000 || p.GetFramesPerSecond() != 49_987.5 || p.GetStartsPerSecond() != 4000 ||
		!p.GetMeasuredAt().AsTime().Equal(found().MeasuredAt) {
		t.Errorf("%v", p)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want the file alone", left, err)
	}
}

func TestReadRejectsOtherMachines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capacity.json")
	if err := WriteCapacity(path, found()); err != nil {
		t.Fatal(err)
	}
	newer := machine
	newer.Version = "v2"
	if _, err := ReadCapacity(path, newer); err != nil {
		t.Errorf("another version of Spate: %v", err)
	}
	for want, change := range map[string]func(*Machine){
		"whose machine ID differs":                                  func(m *Machine) { m.ID = "m2" },
		"(box, and this is bax)":                                    func(m *Machine) { m.Host = "bax" },
		"(8 cores, and this machine has 4)":                         func(m *Machine) { m.Cores = 4 },
		"(linux 6.8, and this machine has linux 6.9)":               func(m *Machine) { m.Kernel = "linux 6.9" },
		"capacity " + path + ": it was measured on another machine": func(m *Machine) { m.Cores = 2 },
	} {
		here := machine
		change(&here)
		_, err := ReadCapacity(path, here)
		if !errors.Is(err, ErrOtherMachine) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestReadRejectsImpossibleValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capacity.json")
	if _, err := ReadCapacity(path, machine); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "spate calibrate creates it") {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"empty":      "",
		"no json":    "streams: 5",
		"no machine": `{"streams": 5, "measured_at": "2026-01-02T03:04:05Z"}`,
		"no time":    `{"streams": 5, "machine": {"host": "box"}}`,
		"negative":   `{"streams": -5, "measured_at": "2026-01-02T03:04:05Z", "machine": {"host": "box"}}`,
		"huge":       `{"streams": 5000000000, "measured_at": "2026-01-02T03:04:05Z", "machine": {"host": "box"}}`,
		"odd":        `{"frames_per_second": 1e300, "measured_at": "2026-01-02T03:04:05Z", "machine": {"host": "box"}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadCapacity(path, machine)
		if err == nil || !strings.Contains(err.Error(), "run spate calibrate again") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Whatever happens to the file, another capacity is never read.
func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capacity.json")
	if err := WriteCapacity(path, found()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	filestest.Each(t, whole, filestest.Lines(whole), func(damaged []byte, what string) {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		switch got, err := ReadCapacity(path, machine); {
		case err == nil && *got != *found():
			t.Errorf("%s: %+v", what, got)
		case err != nil && !errors.Is(err, ErrDamaged):
			t.Errorf("%s: %v", what, err)
		}
	})
}

// FuzzReadCapacity reads arbitrary files whose checksums are right: what is read can be written, and is the same again.
func FuzzReadCapacity(f *testing.F) {
	text, err := json.Marshal(stored{Capacity: *found()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var s stored
		if json.Unmarshal(text, &s) == nil {
			s.Checksum = s.checksum()
			text, _ = json.Marshal(s)
		}
		path := filepath.Join(t.TempDir(), "capacity.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadCapacity(path, s.Machine)
		if err != nil {
			return
		}
		if err := WriteCapacity(path, got); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadCapacity(path, s.Machine); err != nil || *again != *got {
			t.Errorf("%+v, then %+v, %v", got, again, err)
		}
	})
}

func TestWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "capacity.json")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteCapacity(path, found()); err == nil {
		t.Error("a folder was overwritten")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestThisMachine(t *testing.T) {
	m := ThisMachine("v9")
	if m.Host == "" || m.Cores < 1 || m.Kernel == "" || m.Version != "v9" {
		t.Errorf("%+v", m)
	}
	if other := m.difference(ThisMachine("v10")); other != "" {
		t.Errorf("unlike itself: %s", other)
	}
}
