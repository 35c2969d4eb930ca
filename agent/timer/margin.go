package timer

import "time"

// margin is how long before an instant a wait comes back from sleep, to stay awake for the rest: as late as nine of ten
// sleeps came back lately, since a core that sleeps takes a while to wake, 5 us on one machine and 50 us on another.
type margin time.Duration

const (
	firstMargin = margin(50 * time.Microsecond)
	leastMargin = margin(5 * time.Microsecond)
	// mostMargin bounds what staying awake costs. On a core that is busy with other things sleeps end late, too, and a
	// longer margin is of no use.
	mostMargin = margin(150 * time.Microsecond)
	// marginStep is small beside any margin and yet takes it from one end to the other within a few thousand sleeps.
	marginStep = margin(100 * time.Nanosecond)
)

// learn takes in how late a sleep ended. What is exceeded once in ten times rises as often as it falls: by nine steps
// once, by one step nine times.
func (l *margin) learn(late time.Duration) {
	if margin(late) > *l {
		*l = min(*l+9*marginStep, mostMargin)
	} else {
		*l = max(*l-marginStep, leastMargin)
	}
}
