package agent

import (
	"testing"

	"github.com/spate-load/spate/clock"
)

func TestHeartbeatsWaitForTheirAnswers(t *testing.T) {
	var b beats
	for n := range uint64(100) {
		b.remember(n+1, clock.Instant(n)*1000)
	}
	if _, known := b.answered(3); known {
		t.Error("an old one is remembered forever")
	}
	if at, known := b.answered(90); !known || at != 89_000 {
		t.Errorf("sent at %d, %t", at, known)
	}
	if _, known := b.answered(90); known {
		t.Error("answered twice")
	}
	if _, known := b.answered(80); known {
		t.Error("one before the last that was answered still waits")
	}
	if at, known := b.answered(100); !known || at != 99_000 || len(b.sent) != 0 {
		t.Errorf("sent at %d, %t, %d left", at, known, len(b.sent))
	}
}
