package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Results is everything that was measured, the content of peers.json.
type Results struct {
	Machine  Machine           `json:"machine"`
	Started  time.Time         `json:"started"`
	Rounds   int               `json:"rounds"`
	Timeout  time.Duration     `json:"timeout_ns"`
	Versions map[string]string `json:"versions"`
	Runs     []Run             `json:"runs"`
}

// Machine is where the measurement ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func thisMachine() Machine {
	m := Machine{CPU: "unknown CPU", Kernel: "unknown kernel", Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.Cores = strings.Count(string(text), "processor\t:") // this program may be limited to one of them
		if _, rest, ok := strings.Cut(string(text), "model name\t: "); ok {
			m.CPU, _, _ = strings.Cut(rest, "\n")
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	return m
}

// write writes peers.json and peers.md into a folder, and prints the table.
func write(dir string, r *Results) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "peers.json"), append(text, '\n'),
		0o644); err != nil { //nolint:gosec // results are for everyone
		return err
	}
	table := r.Markdown()
	fmt.Print(table)
	return os.WriteFile(filepath.Join(dir, "peers.md"), []byte(table), 0o644) //nolint:gosec // as above
}
