package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spate-load/spate/clock"
)

// tick is the kernel's unit of CPU time in /proc: USER_HZ, which is 100 on every Linux architecture that Go supports.
const tick = 10 * time.Millisecond

// sampleInterval is how often the coordinator's process is sampled.
const sampleInterval = 500 * time.Millisecond

// meter reads the resource use of the coordinator's process from /proc.
type meter struct {
	settings
	run string // the run whose ledger is measured
}

// sample is one reading.
type sample struct {
	at         clock.Instant
	user, sys  time.Duration
	anon, peak uint64 // resident without files, and the peak of resident with files, in bytes
	ledger     int64  // bytes
	received   uint64 // bytes read, nearly all of them from sockets
}

func newMeter(s settings) *meter { return &meter{settings: s} }

// read takes a sample.
func (m *meter) read() (sample, error) {
	s := sample{at: clock.Now()}
	if err := s.readProcess(m.pid); err != nil {
		return s, err
	}
	if info, err := os.Stat(filepath.Join(m.dataDir, m.run, "ledger.db")); m.run != "" && err == nil {
		s.ledger = info.Size()
	}
	return s, nil
}

// readProcess reads /proc.
func (s *sample) readProcess(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return fmt.Errorf("process of the coordinator: %w", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // its name may have spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	user, err1 := strconv.Atoi(fields[11])
	sys, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return fmt.Errorf("/proc/%d/stat: %q and %q are no times", pid, fields[11], fields[12])
	}
	s.user, s.sys = time.Duration(user)*tick, time.Duration(sys)*tick
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("process of the coordinator: %w", err)
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return fmt.Errorf("process of the coordinator: %w", err)
	}
	if _, err := fmt.Sscanf(string(io), "rchar: %d", &s.received); err != nil {
		return fmt.Errorf("/proc/%d/io: %w", pid, err)
	}
	s.anon, s.peak = kilobytes(status, "RssAnon:"), kilobytes(status, "VmHWM:")
	return nil
}

// kilobytes returns the value of a line of /proc/PID/status, in bytes.
func kilobytes(status []byte, name string) uint64 {
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// written reads from the coordinator's metrics how many snapshots it has written. It is not asked during the
// measurement: with 10,000 agents an answer takes it 50 ms.
func (m *meter) written() (float64, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + m.status + "/metrics") //nolint:noctx // it has a timeout
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", m.status, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "spate_coordinator_snapshots_total "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("metrics of %s: no number of snapshots", m.status)
}

// watch takes samples from the end of settling until all windows have passed, or until stop.
func (m *meter) watch(ctx context.Context, began, stop <-chan struct{}) (samples []sample) {
	select {
	case <-began:
	case <-stop:
		return nil
	}
	end := time.After(m.seconds(m.windows))
	if !clock.Sleep(ctx, m.seconds(m.settle)) {
		return nil
	}
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		if s, err := m.read(); err == nil {
			samples = append(samples, s)
		}
		select {
		case <-ticker.C:
		case <-end:
			return samples
		case <-stop:
			return samples
		}
	}
}
