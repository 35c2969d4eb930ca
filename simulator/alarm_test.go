package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

func TestAlarmIsNeverEarly(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for range 20 {
		at := clock.Now().Add(time.Millisecond)
		a.set(at)
		a.wait()
		if now := clock.Now(); now < at.Add(-time.Microsecond) { // the error of mapping the clock to the kernel's
			t.Fatalf("woke %v early", at.Sub(now))
		}
	}
}

func TestAlarmResetWhileWaiting(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.set(clock.Now().Add(time.Hour))
	rang := make(chan struct{})
	go func() { a.wait(); close(rang) }()
	a.set(1)
	<-rang
}

// BenchmarkAlarm measures how late the alarm is when nothing else runs.
func BenchmarkAlarm(b *testing.B) {
	a, err := newAlarm()
	if err != nil {
		b.Fatal(err)
	}
	defer a.close()
	late := make([]time.Duration, 0, b.N)
	for b.Loop() {
		at := clock.Now().Add(500 * time.Microsecond)
		a.set(at)
		a.wait()
		late = append(late, clock.Now().Sub(at))
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "late-p50-us")
	b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "late-p99-us")
}
