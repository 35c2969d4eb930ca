package host

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine identifies a machine on which something was measured, and the software.
type Machine struct {
	// ID is the machine ID, if the system has one.
	ID string `json:"id,omitempty"`
	// Host is the machine's host name.
	Host string `json:"host"`
	// Cores is the number of cores that the process could use.
	Cores int `json:"cores"`
	// Kernel is the operating system and its release.
	Kernel string `json:"kernel"`
	// Version is the version of Spate.
	Version string `json:"version"`
}

// ThisMachine describes the machine on which the program is running.
func ThisMachine(version string) Machine {
	host, _ := os.Hostname() // empty: it has none
	return Machine{
		ID: firstLine("/etc/machine-id"), Host: host, Cores: runtime.NumCPU(), Kernel: kernel(), Version: version,
	}
}

// difference says why a capacity of machine m does not apply to another machine, or returns "". The kernel takes the
// timestamps, and the cores do the work. Another version of Spate is assumed to be as fast.
func (m Machine) difference(here Machine) string {
	switch {
	case m.ID != here.ID:
		return fmt.Sprintf("%s, whose machine ID differs from that of %s", m.Host, here.Host)
	case m.Host != here.Host:
		return fmt.Sprintf("%s, and this is %s", m.Host, here.Host)
	case m.Cores != here.Cores:
		return fmt.Sprintf("%d cores, and this machine has %d", m.Cores, here.Cores)
	case m.Kernel != here.Kernel:
		return fmt.Sprintf("%s, and this machine has %s", m.Kernel, here.Kernel)
	}
	return ""
}

// kernel returns the operating system and, if known, its release.
func kernel() string {
	return strings.TrimSpace(runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease"))
}

// firstLine returns the first line of a file, or "" if the file cannot be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}
