package arrival

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// Counted says whether a load point tells how many measured arrivals it holds for a share before they come. With
// requests it does whatever the cool-down, unless it is a trace's last part. In a closed loop it does with a warm-up by
// time or until steady too.
func Counted(load *spatev1.LoadPoint) bool {
	if !counted(load) || timedWarmup(load) && load.GetConcurrency() == 0 {
		return false
	}
	return load.GetReplaySpeed() == 0 || load.GetCooldown().AsDuration() == 0
}

// Owed returns how many measured arrivals a load point that is Counted holds for a share. Of an open loop that is not
// known without its schedule if shares have changed hands, which goes by the arrivals' times, or are drawn at random:
// see Open.Left.
func Owed(load *spatev1.LoadPoint, s Share) (arrivals uint64, known bool) {
	c := uint64(load.GetConcurrency())
	if !Counted(load) || c == 0 && (s.Changed() || load.GetSplit() == splitRandom && !s.base.complete()) {
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

// counted says whether the number of measured arrivals, and nothing else, ends the measured part.
func counted(load *spatev1.LoadPoint) bool {
	return load.GetRequests() != 0 && load.GetDuration().AsDuration() == 0 && len(load.GetPhases()) == 0
}

// timedWarmup says whether time has a say in which arrival is the first measured one.
func timedWarmup(load *spatev1.LoadPoint) bool {
	return load.GetWarmupDuration().AsDuration() != 0 || load.GetWarmupUntilSteady().AsDuration() != 0 ||
		load.GetStagger().AsDuration() != 0
}
