package schedule

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// Counted reports whether the number of a share's measured arrivals is known in advance. It is if only the load's
// requests end the measured part. A warm-up by time or until steady is then allowed only in a closed loop. A cool-down
// is allowed unless it is the last part of a trace.
func Counted(load *spatev1.LoadPoint) bool {
	if !counted(load) || timedWarmup(load) && load.GetConcurrency() == 0 {
		return false
	}
	return load.GetReplaySpeed() == 0 || load.GetCooldown().AsDuration() == 0
}

// Owed returns how many measured arrivals a share has, if the load point is Counted. For an open loop the number is not
// known without the schedule if shares have changed hands, which depends on the arrivals' times, or if arrivals are
// drawn at random: see Open.Left.
func Owed(load *spatev1.LoadPoint, s Share) (arrivals uint64, known bool) {
	c := uint64(load.GetConcurrency())
	if !Counted(load) || c == 0 && (s.Changed() || load.GetSplit() == splitRandom && !s.base.Complete()) {
		return 0, false
	}
	l := limits{requests: load.GetRequests(), warmupRequests: load.GetWarmupRequests()}
	if c == 0 {
		return s.base.Below(l.warmupRequests+l.requests) - s.base.Below(l.warmupRequests), true
	}
	if timedWarmup(load) {
		l.warmupDuration = 1
	}
	return measures(s.lists(c, &l)), true
}

// counted reports whether only the number of measured arrivals ends the measured part.
func counted(load *spatev1.LoadPoint) bool {
	return load.GetRequests() != 0 && load.GetDuration().AsDuration() == 0 && len(load.GetPhases()) == 0
}

// timedWarmup reports whether the first measured arrival depends on time.
func timedWarmup(load *spatev1.LoadPoint) bool {
	return load.GetWarmupDuration().AsDuration() != 0 || load.GetWarmupUntilSteady().AsDuration() != 0 ||
		load.GetStagger().AsDuration() != 0
}
