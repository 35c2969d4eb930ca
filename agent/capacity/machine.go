package capacity

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine says which machine something was measured on, and with what.
type Machine struct {
	// ID is the machine's own, where its system gives it one.
	ID string `json:"id,omitempty"`
	// Host is its name.
	Host string `json:"host"`
	// Cores that the process might use.
	Cores int `json:"cores"`
	// Kernel is the operating system and its release.
	Kernel string `json:"kernel"`
	// Processor is the name of the processor, where it is known.
	Processor string `json:"processor,omitempty"`
	// Version of Spate.
	Version string `json:"version"`
}

// ThisMachine describes the machine that the program runs on.
func ThisMachine(version string) Machine {
	host, _ := os.Hostname() // empty: it has none
	return Machine{
		ID: firstLine("/etc/machine-id"), Host: host, Cores: runtime.NumCPU(), Kernel: kernel(), Processor: processor(),
		Version: version,
	}
}

// unlike says for people why a capacity of this machine says nothing of another, or "". The kernel takes the stamps,
// and cores do the work; another version of Spate is taken for as fast.
func (m Machine) unlike(here Machine) string {
	switch {
	case m.ID != here.ID:
		return fmt.Sprintf("of %s, whose machine id is another than that of %s", m.Host, here.Host)
	case m.Host != here.Host:
		return fmt.Sprintf("of %s, and this is %s", m.Host, here.Host)
	case m.Cores != here.Cores:
		return fmt.Sprintf("of %d cores, and here are %d", m.Cores, here.Cores)
	case m.Kernel != here.Kernel:
		return fmt.Sprintf("of %s, and this is %s", m.Kernel, here.Kernel)
	}
	return ""
}

// kernel is the operating system and, where it is known, its release.
func kernel() string {
	return strings.TrimSpace(runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease"))
}

// processor is its name. Empty: not known.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// firstLine is that of a file. Empty: there is none.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}
