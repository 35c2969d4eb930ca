package kernel

import "time"

// margin is how long before an instant a sleep must end, to stay awake for the rest: nine of ten recent sleeps ended no
// later than that. A sleeping core takes a while to wake, 5 us on one machine and 50 us on another.
type margin time.Duration

const (
	firstMargin = margin(50 * time.Microsecond)
	minMargin   = margin(5 * time.Microsecond)
	// maxMargin bounds the cost of staying awake. On a core that is busy with other things sleeps end late, too, and a
	// longer margin does not help.
	maxMargin = margin(150 * time.Microsecond)
	// marginStep is small compared to any margin, yet covers the whole range within a few thousand sleeps.
	marginStep = margin(100 * time.Nanosecond)
)

// learn adapts the margin to how late a sleep ended. At the 90th percentile the margin rises as often as it falls: once
// in ten by nine steps, and nine times by one step.
func (l *margin) learn(late time.Duration) {
	if margin(late) > *l {
		*l = min(*l+9*marginStep, maxMargin)
	} else {
		*l = max(*l-marginStep, minMargin)
	}
}
