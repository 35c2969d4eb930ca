package lifecycle

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// longestObservation is the duration of an observer's load: the longest that a plan may give a stage. An observer is
// stopped when the others are done.
const longestObservation = 7 * 24 * time.Hour

// observed returns the stage for an observer of a region: the same target and workload under a light load that is
// measured from the start.
func observed(st *spatev1.Stage, region string) *spatev1.Stage {
	out := clone(st)
	o := st.GetObservers()
	out.Load = &spatev1.LoadPoint{Duration: durationpb.New(longestObservation), Repeat: st.GetLoad().GetRepeat()}
	if o.GetRate() > 0 {
		out.Load.Rate, out.Load.Arrival = o.GetRate(), "constant"
	} else {
		out.Load.Concurrency = max(1, o.GetConcurrency())
	}
	out.Seed = observerSeed(st.GetSeed(), region)
	return out
}

// observerSeed returns a hash of seed and region, so that observers of different regions, and the load, send different
// requests.
func observerSeed(seed uint64, region string) uint64 {
	buffer := binary.BigEndian.AppendUint64([]byte("spate observer seed 1"), seed)
	sum := sha256.Sum256(append(buffer, region...))
	return binary.BigEndian.Uint64(sum[:])
}

// stopObservers stops the observers after the others have ended.
func (r *Run) stopObservers(at clock.Instant) {
	s := r.stage
	r.phase, r.unsaved = stopping, true
	s.deadline = at.Add(r.totalsTimeout(false))
	r.sendStop(false)
}
