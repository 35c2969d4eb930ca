package arrival

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// Owed returns how many measured arrivals a load point holds for the stripe. With requests they are known whatever the cool-down,
// unless it is a trace's last part. In a closed loop they are known with a warm-up by time or until steady too.
func Owed(load *spatev1.LoadPoint, s Stripe) (arrivals uint64, known bool) {
	if !counted(load) || timedWarmup(load) && load.GetConcurrency() == 0 {
		return 0, false
	}
	if load.GetReplaySpeed() != 0 && load.GetCooldown().AsDuration() != 0 {
		return 0, false
	}
	warmup := load.GetWarmupRequests()
	return below(load, s, warmup+load.GetRequests()) - below(load, s, warmup), true
}

// counted says whether the number of measured arrivals, and nothing else, ends the measured part.
func counted(load *spatev1.LoadPoint) bool {
	return load.GetRequests() != 0 && load.GetDuration().AsDuration() == 0 && len(load.GetPhases()) == 0
}

// timedWarmup says whether time has a say in which arrival is the first measured one.
func timedWarmup(load *spatev1.LoadPoint) bool {
	return load.GetWarmupDuration().AsDuration() != 0 || load.GetWarmupUntilSteady().AsDuration() != 0
}

// below returns how many arrivals below index n are the stripe's.
func below(load *spatev1.LoadPoint, s Stripe, n uint64) uint64 {
	c := uint64(load.GetConcurrency())
	if c == 0 {
		return s.Below(n)
	}
	return n/c*s.Below(c) + s.Below(n%c)
}
