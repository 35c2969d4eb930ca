package executor

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/internal/kernel"
	"github.com/spate-load/spate/internal/process"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Most tests of loads run in virtual time. Their stages are prepared against servers outside of it, and the requests of
// their loads go straight to the engines, without a network.

// virtual returns a test that runs in virtual time.
func virtual(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(fifty) // it begins in 2000, and instants count from the start of this process
			test(t)
		})
	}
}

const fifty = 50 * 365 * 24 * time.Hour

// inVirtualTime reports whether it is called in virtual time.
func inVirtualTime() bool { return time.Now().Year() > 2048 }

// jobs are done by TestMain's goroutine, outside of virtual time.
var jobs = make(chan func())

func TestMain(m *testing.M) {
	process.Parallel(4)
	go func() {
		for job := range jobs {
			go job()
		}
	}()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// outside calls a function outside of virtual time, which stands still meanwhile. The function must not use channels of
// virtual time, as contexts of tests have.
func outside(f func()) {
	if !inVirtualTime() {
		f()
		return
	}
	var done sync.Mutex // time passes while all goroutines wait for channels, but not if one waits for a mutex
	done.Lock()
	jobs <- func() { defer done.Unlock(); f() }
	done.Lock()
}

// engines has the engines of virtual time by URL.
var engines sync.Map

// newEngine returns an engine as enginetest.New does, in real or in virtual time.
func newEngine(t *testing.T, delay time.Duration, status int) (e *enginetest.Engine) {
	t.Helper()
	outside(func() { e = enginetest.New(t, delay, status) })
	engines.Store(e.URL, e)
	return e
}

// prepare prepares a load's stage. It is closed at the end of the load, or by outside.
func prepare(t *testing.T, a *spatev1.Assign, k *ready.Resources) (s *ready.Stage) {
	t.Helper()
	var err error
	outside(func() { s, err = ready.Prepare(context.Background(), a, nil, k) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// goVirtual makes a load ask the engines of its stage without a network, and wait by Go's timers.
func (l *Load) goVirtual() {
	var c enginetest.Client
	for _, url := range l.Target().GetEndpoints() {
		e, _ := engines.Load(url)
		c = append(c, e.(*enginetest.Engine))
	}
	l.client, l.newTimer = c, kernel.NewPlainTimer
}
