package plans

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// LoadKey identifies a load point: two points have the same key if and only if they ask for the same load with the same ends
// and warm-up. It is stable from version to version.
func LoadKey(l *spatev1.LoadPoint) string {
	return fmt.Sprintf("concurrency=%d rate=%s arrival=%s requests=%d duration=%d warmup_requests=%d warmup_duration=%d",
		l.GetConcurrency(), strconv.FormatFloat(l.GetRate(), 'g', -1, 64), l.GetArrival(), l.GetRequests(),
		l.GetDuration().AsDuration(), l.GetWarmupRequests(), l.GetWarmupDuration().AsDuration())
}

// LoadWords returns a load point in words, without its ends: "concurrency 8", "2 req/s poisson".
func LoadWords(l *spatev1.LoadPoint) string {
	if l.GetConcurrency() > 0 {
		return fmt.Sprintf("concurrency %d", l.GetConcurrency())
	}
	return fmt.Sprintf("%s req/s %s", strconv.FormatFloat(l.GetRate(), 'f', -1, 64), l.GetArrival())
}

// stageSeed is a pure hash of what a stage's requests may depend on. The target and the stage's place are left out on
// purpose: two targets are sent the same requests. The text in front keeps it apart from other uses of the same hash.
func stageSeed(planSeed uint64, workload string, l *spatev1.LoadPoint) uint64 {
	buffer := []byte("spate stage seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, planSeed)
	buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(workload)))
	buffer = append(buffer, workload...)
	buffer = append(buffer, LoadKey(l)...)
	sum := sha256.Sum256(buffer)
	return binary.BigEndian.Uint64(sum[:])
}

// ExpectedDuration returns the time in which a stage starts requests, warm-up included, and whether it is known. It is a
// bound for a closed loop that ends by duration, an expectation for a Poisson process that ends by requests, and not known for
// a closed loop that ends by requests alone.
func ExpectedDuration(s *spatev1.Stage) (time.Duration, bool) {
	l := s.GetLoad()
	longest, known := time.Duration(math.MaxInt64), false
	if l.GetDuration() != nil {
		longest, known = l.GetWarmupDuration().AsDuration()+l.GetDuration().AsDuration(), true
	}
	if l.GetRate() > 0 && l.GetRequests() > 0 {
		seconds := float64(l.GetWarmupRequests()+l.GetRequests()) / l.GetRate()
		if seconds < longest.Seconds() {
			longest, known = time.Duration(seconds*float64(time.Second)), true
		}
	}
	if !known {
		return 0, false
	}
	return longest, true
}

// ExpectedRequests returns the requests of a stage, warm-up included, and whether they are counted: whether the stage ends
// by requests. It may end before by its duration.
func ExpectedRequests(s *spatev1.Stage) (uint64, bool) {
	l := s.GetLoad()
	if l.GetRequests() == 0 {
		return 0, false
	}
	return l.GetWarmupRequests() + l.GetRequests(), true
}
