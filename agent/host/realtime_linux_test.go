package host

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain runs a child that prints the policies of its threads: the test's own process must not change.
func TestMain(m *testing.M) {
	if policy := os.Getenv("SPATE_TEST_REALTIME"); policy != "" {
		os.Exit(child(Realtime(policy)))
	}
	os.Exit(m.Run())
}

// child applies the policy, and prints how many of its threads are real-time, including threads created later.
func child(policy Realtime) int {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := policy.Apply(logger); err != nil {
		logger.Error("not applied", "error", err)
		return 2
	}
	var made, release sync.WaitGroup
	release.Add(1)
	for range 8 {
		made.Add(1)
		go func() {
			runtime.LockOSThread()
			made.Done()
			release.Wait()
		}()
	}
	made.Wait()
	threads, _ := os.ReadDir("/proc/self/task")
	realtime := 0
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if now, err := unix.SchedGetAttr(id, 0); err == nil && now.Policy == unix.SCHED_RR && now.Priority == 1 {
			realtime++
		}
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(realtime) + " of " + strconv.Itoa(len(threads)))
	release.Done()
	return 0
}

// run starts the child under a policy, without privileges if unprivileged is true.
func run(t *testing.T, policy Realtime, unprivileged bool) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(executable(t))
	if unprivileged && os.Geteuid() == 0 {
		setpriv, err := exec.LookPath("setpriv")
		if err != nil {
			t.Fatal("no setpriv here, which util-linux has: a user without rights cannot be tried")
		}
		cmd = exec.Command(setpriv, "--bounding-set=-all", "--inh-caps=-all", executable(t))
	}
	cmd.Env = append(os.Environ(), "SPATE_TEST_REALTIME="+string(policy))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// allowed reports whether this machine allows the test real-time scheduling.
func allowed(t *testing.T) bool {
	t.Helper()
	_, _, code := run(t, RealtimeOn, false)
	return code == 0
}

// Every thread is real-time, including those created later, or the log says that none is.
func TestAuto(t *testing.T) {
	stdout, stderr, code := run(t, RealtimeAuto, false)
	here, all, _ := strings.Cut(stdout, " of ")
	switch {
	case code != 0:
		t.Fatalf("exit %d: %s", code, stderr)
	case allowed(t) && (here != all || !strings.Contains(stderr, "real-time scheduling is on")):
		t.Errorf("%s threads are real-time; the log: %s", stdout, stderr)
	case !allowed(t) && (here != "0" || !strings.Contains(stderr, "real-time scheduling is off")):
		t.Errorf("%s threads are real-time; the log: %s", stdout, stderr)
	}
}

func TestOff(t *testing.T) {
	if stdout, stderr, _ := run(t, RealtimeOff, false); !strings.HasPrefix(stdout, "0 of ") || stderr != "" {
		t.Errorf("%s threads are real-time; the log: %s", stdout, stderr)
	}
}

// Without privileges, RealtimeOn fails and says what to do, and RealtimeAuto continues.
func TestNotAllowed(t *testing.T) {
	if stdout, stderr, code := run(t, RealtimeAuto, true); code != 0 || !strings.HasPrefix(stdout, "0 of ") {
		t.Errorf("auto: exit %d, %s threads are real-time; the log: %s", code, stdout, stderr)
	}
	if _, stderr, code := run(t, RealtimeOn, true); code != 2 || !strings.Contains(stderr, "CAP_SYS_NICE") {
		t.Errorf("on: exit %d; the log: %s", code, stderr)
	}
}

func TestSet(t *testing.T) {
	p := RealtimeAuto
	if err := p.Set("on"); err != nil || p != RealtimeOn {
		t.Errorf("on: %q, %v", p, err)
	}
	if err := p.Set("yes"); err == nil || p != RealtimeOn {
		t.Errorf("yes: %q, %v", p, err)
	}
}
