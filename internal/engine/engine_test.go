//go:build unix

package engine

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/internal/process"
)

// TestMain makes this test's own program a guard, an engine, or a program that starts engines.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case GuardCommand:
			Guard(os.Args[2:])
			return
		case "engine":
			os.Exit(serve(os.Args[2]))
		case "starter":
			start(os.Args[2:])
		}
	}
	goleak.VerifyTestMain(m)
}

// serve is an engine of a kind. It prints the IDs of its processes.
func serve(kind string) int {
	child := func(as string, attributes *syscall.SysProcAttr) {
		cmd := exec.Command(os.Args[0], "engine", as)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attributes
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	switch kind {
	case "ends":
		fmt.Println("CUDA out\x1b of memory")
		return 7
	case "fails":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "leaves":
		child("plain", nil)
		return 0
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "daemons":
		child("deaf", nil)
		child("deaf", &syscall.SysProcAttr{Setsid: true})
	}
	fmt.Println("pid", os.Getpid())
	time.Sleep(time.Hour)
	return 0
}

// start is a program that starts engines of kinds, until it is killed.
func start(kinds []string) {
	for _, kind := range kinds[1:] {
		if _, err := Start(Guarded(os.Args[0], time.Second), []string{os.Args[0], "engine", kind}, nil, kinds[0]); err != nil {
			panic(err)
		}
	}
	fmt.Println("started")
	time.Sleep(time.Hour)
}

// pids waits until a log has so many processes, and returns them.
func pids(t *testing.T, log string, n int) (all []int) {
	t.Helper()
	process.Eventually(t, "processes in "+log, func() bool {
		text, _ := os.ReadFile(log)
		all = nil
		for line := range strings.Lines(string(text)) {
			var pid int
			if m, _ := fmt.Sscanf(line, "pid %d\n", &pid); m == 1 {
				all = append(all, pid)
			}
		}
		return len(all) >= n
	})
	return all
}

// left returns which of the processes there still are.
func left(all []int) (there []int) {
	for _, pid := range all {
		if syscall.Kill(pid, 0) == nil {
			there = append(there, pid)
		}
	}
	return there
}

func own(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// When Stop returns, nothing of an engine is left: neither one that ignores SIGTERM, nor its children, nor those that
// left its group.
func TestStop(t *testing.T) {
	for kind, processes := range map[string]int{"plain": 1, "deaf": 1, "daemons": 3} {
		log := filepath.Join(t.TempDir(), "log")
		e, err := Start(Guarded(own(t), 50*time.Millisecond), []string{own(t), "engine", kind}, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		all := pids(t, log, processes)
		if there := left(all); len(there) != processes {
			t.Errorf("%s: %v of %v run", kind, there, all)
		}
		e.Stop()
		if there := left(all); len(there) > 0 {
			t.Errorf("%s: %v are left of %v", kind, there, all)
		}
	}
}

// An engine that ends by itself is told with its last lines, and what it leaves behind ends too.
func TestEndsByItself(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for kind, want := range map[string][]string{
		"ends": {"CUDA out  of memory", "exit status 7"}, "leaves": {"exit status 0"}, "fails": {"signal: killed"},
	} {
		e, err := Start(Guarded(own(t), time.Minute), []string{own(t), "engine", kind}, []string{"X=1"}, log)
		if err != nil {
			t.Fatal(err)
		}
		<-e.Ended()
		if last := e.Last(); !slices.Equal(last[max(0, len(last)-len(want)):], want) {
			t.Errorf("%s: its last lines are %q, want %q", kind, last, want)
		}
		e.Stop()
	}
	if there := left(pids(t, log, 0)); len(there) > 0 {
		t.Errorf("%v are left", there)
	}
	e, err := Start(Guarded(own(t), time.Minute), []string{"/no such program", "x"}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Ended()
	if !strings.Contains(strings.Join(e.Last(), ""), "no such file") {
		t.Errorf("a program that is not there: %q", e.Last())
	}
	if err := e.Run(t.Context(), []string{"/no such program"}); err == nil {
		t.Error("a command that cannot be run is not told")
	}
	e.Stop()
}

// A program that is killed with engines, at any time, leaves no process behind.
func TestKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := []string{"plain", "deaf", "daemons"}
	var logs []string
	for range 10 {
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.CommandContext(t.Context(), own(t), "starter", log, kinds[random.IntN(3)], kinds[random.IntN(3)])
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 { // else it is killed while it starts
			_, _ = bufio.NewReader(out).ReadString('\n')
		}
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		logs = append(logs, log)
	}
	for _, log := range logs {
		process.Eventually(t, "all processes of "+log+" have ended", func() bool {
			return len(left(pids(t, log, 0))) == 0 && !running(log)
		})
	}
}

// running reports whether a guard still has a log open.
func running(log string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/1")
	for _, file := range files {
		if to, _ := os.Readlink(file); to == log {
			return true
		}
	}
	return false
}
