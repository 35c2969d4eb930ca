package watch

import (
	"slices"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// windows keeps the windows of a run in the order in which they came.
type windows struct {
	samples []*spatev1.StageWindow // every step-th of the windows before latest, without regions and agents
	step    int
	passed  int // windows that left latest
	latest  []*spatev1.StageWindow
}

// add adds a window. A quarter more than MaxWindows is kept for a while, so that windows do not move at each one.
func (w *windows) add(e *spatev1.StageWindow) {
	w.latest = append(w.latest, e)
	if len(w.latest) <= MaxWindows+MaxWindows/4 {
		return
	}
	for _, old := range w.latest[:MaxWindows/4] {
		w.sample(old)
	}
	w.latest = slices.Delete(w.latest, 0, MaxWindows/4)
}

// sample keeps a window that is no longer among the latest, if it is a step-th one.
func (w *windows) sample(old *spatev1.StageWindow) {
	w.step = max(w.step, 1)
	if w.passed++; (w.passed-1)%w.step != 0 {
		return
	}
	if len(w.samples) == MaxSamples {
		w.samples = everySecond(w.samples)
		w.step *= 2
		if (w.passed-1)%w.step != 0 {
			return
		}
	}
	w.samples = append(w.samples, bare(old))
}

// bare returns a window without its regions, agents and doubts.
func bare(w *spatev1.StageWindow) *spatev1.StageWindow {
	return &spatev1.StageWindow{
		StageIndex: w.GetStageIndex(), Number: w.GetNumber(), PeakInFlight: w.GetPeakInFlight(), Whole: w.GetWhole(),
		Errors: w.GetErrors(), Verdict: w.GetVerdict(),
	}
}

// everySecond returns the windows at even positions.
func everySecond(all []*spatev1.StageWindow) []*spatev1.StageWindow {
	kept := make([]*spatev1.StageWindow, 0, MaxSamples)
	for i := 0; i < len(all); i += 2 {
		kept = append(kept, all[i])
	}
	return kept
}

// Windows returns the windows of a stage that are kept, the newest last: of the latest MaxWindows of the run all,
// whole; of earlier ones samples without regions and agents. The caller must not change them.
func (r *Run) Windows(stage uint32) []*spatev1.StageWindow {
	var out []*spatev1.StageWindow
	for _, of := range [][]*spatev1.StageWindow{r.windows.samples, r.windows.latest} {
		for _, w := range of {
			if w.GetStageIndex() == stage {
				out = append(out, w)
			}
		}
	}
	return out
}

// Distribution returns the values of a metric in a part of a window, by its name in results.json: ttft_ms, e2e_ms,
// tpot_ms, itl_ms. It returns nil if there were none.
func Distribution(part *spatev1.WindowPart, metric string) *spatev1.WindowDistribution {
	for _, d := range part.GetDistributions() {
		if d.GetMetric() == metric {
			return d
		}
	}
	return nil
}

// Starts returns how many measured requests per second started over consecutive windows of a stage, and how many
// seconds these span: 0 if there are none.
func Starts(over []*spatev1.StageWindow) (perSecond float64, seconds uint64) {
	if len(over) == 0 {
		return 0, 0
	}
	first, last := over[0], over[len(over)-1]
	seconds = uint64(max(first.GetWhole().GetSeconds(), 1))
	seconds += uint64(last.GetNumber() - min(first.GetNumber(), last.GetNumber()))
	for _, w := range over {
		perSecond += float64(w.GetWhole().GetStarted()) / float64(seconds)
	}
	return perSecond, seconds
}
