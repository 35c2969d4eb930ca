package arrival

import (
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Planned returns how many requests a load point holds for the stripe, warm-up included. It is known only where counts alone
// rule: with requests and neither duration nor warmup_duration. Elsewhere the schedule (open loop) or the server (closed
// loop) decides.
func Planned(load *spatev1.LoadPoint, s Stripe) (requests uint64, known bool) {
	if !counted(load) || warmupSpan(load) != 0 {
		return 0, false
	}
	return below(load, s, load.GetWarmupRequests()+load.GetRequests()), true
}

// Owed returns how many measured requests a load point holds for the stripe. In a closed loop they are known with a
// warmup_duration too.
func Owed(load *spatev1.LoadPoint, s Stripe) (requests uint64, known bool) {
	if !counted(load) || warmupSpan(load) != 0 && load.GetConcurrency() == 0 {
		return 0, false
	}
	warmup := load.GetWarmupRequests()
	return below(load, s, warmup+load.GetRequests()) - below(load, s, warmup), true
}

// counted says whether the number of measured requests, and nothing else, ends the load.
func counted(load *spatev1.LoadPoint) bool {
	return load.GetRequests() != 0 && load.GetDuration().AsDuration() == 0
}

// warmupSpan returns the load's warmup_duration, 0 if it has none.
func warmupSpan(load *spatev1.LoadPoint) time.Duration { return load.GetWarmupDuration().AsDuration() }

// below returns how many requests below index n are the stripe's.
func below(load *spatev1.LoadPoint, s Stripe, n uint64) uint64 {
	c := uint64(load.GetConcurrency())
	if c == 0 {
		return s.Below(n)
	}
	return n/c*s.Below(c) + s.Below(n%c)
}
