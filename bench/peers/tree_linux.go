package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// tree is a process and all its descendants, including those whose parents are gone.
type tree struct {
	root int
	seen map[int]bool
}

// process is what /proc says about a process.
type process struct {
	pid, parent, session int
	// own is its CPU time in seconds, waited that of the children it waited for.
	own, waited float64
	resident    int64
	state       byte
}

// total is a sample of all processes of a tree.
type total struct {
	cpu       float64
	resident  int64
	processes int
}

func newTree(root int) *tree {
	return &tree{root: root, seen: map[int]bool{root: true}}
}

// look adds up what the processes have used so far. The CPU time of a process that has ended is in its parent's, if the
// parent waited for it.
func (t *tree) look() total {
	var sum total
	for _, p := range t.members() {
		sum.cpu += p.own + p.waited
		sum.resident += p.resident
		sum.processes++
	}
	return sum
}

// members returns the existing processes of the tree.
func (t *tree) members() []process {
	all := processes()
	for added := true; added; { // a child may come before its parent
		added = false
		for _, p := range all {
			if !t.seen[p.pid] && (t.seen[p.parent] || p.session == t.root) {
				t.seen[p.pid], added = true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(p process) bool { return !t.seen[p.pid] })
}

// end kills the remaining processes.
func (t *tree) end() {
	for _, p := range t.members() {
		if p.state != 'Z' {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended by itself
		}
	}
}

// processes returns all processes of the machine.
func processes() []process {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	var all []process
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended just now
		}
		if p, err := parseStat(string(text)); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// ticksPerSecond is for /proc/PID/stat: a tick is 10 ms on every Linux that Go runs on.
const ticksPerSecond = 100

// parseStat parses a line of /proc/PID/stat, see proc(5). The name in it may contain blanks and brackets.
func parseStat(line string) (process, error) {
	pid, _, ok := strings.Cut(line, " ")
	end := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[end+1:])
	if !ok || end < 0 || len(fields) < 22 {
		return process{}, fmt.Errorf("/proc/PID/stat: %q has no 24 fields", line)
	}
	numbers := map[int]int64{}
	for _, i := range []int{1, 3, 11, 12, 13, 14, 21} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return process{}, fmt.Errorf("/proc/PID/stat: field %d: %w", i+3, err)
		}
		numbers[i] = n
	}
	id, err := strconv.Atoi(pid)
	if err != nil {
		return process{}, fmt.Errorf("/proc/PID/stat: field 1: %w", err)
	}
	return process{
		pid: id, state: fields[0][0], parent: int(numbers[1]), session: int(numbers[3]),
		own:      float64(numbers[11]+numbers[12]) / ticksPerSecond,
		waited:   float64(numbers[13]+numbers[14]) / ticksPerSecond,
		resident: numbers[21] * int64(os.Getpagesize()),
	}, nil
}

// monotonic returns CLOCK_MONOTONIC in ns, the clock of the server's truth file.
func monotonic() int64 {
	const clockMonotonic = 1
	var t syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}
