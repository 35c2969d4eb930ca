package wire

import (
	"slices"
	"testing"
	"time"

	"github.com/spate-load/spate/clock"
)

func TestAlarmIsNeverEarly(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for range 20 {
		at := clock.Now().Add(time.Millisecond)
		a.Set(at)
		a.Wait()
		if now := clock.Now(); now < at.Add(-time.Microsecond) { // the error of mapping the clock to the kernel's
			t.Fatalf("woke %v early", at.Sub(now))
		}
	}
}

func TestAlarmResetWhileWaiting(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.Set(clock.Now().Add(time.Hour))
	rang := make(chan struct{})
	go func() { a.Wait(); close(rang) }()
	a.Set(1)
	<-rang
}

// BenchmarkAlarm measures how late the alarm is when nothing else runs.
func BenchmarkAlarm(b *testing.B) {
	a, err := NewAlarm()
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	late := make([]time.Duration, 0, b.N)
	for b.Loop() {
		at := clock.Now().Add(500 * time.Microsecond)
		a.Set(at)
		a.Wait()
		late = append(late, clock.Now().Sub(at))
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "late-p50-us")
	b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "late-p99-us")
}
