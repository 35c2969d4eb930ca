package watch

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Stage is the state of a stage that started or ended.
type Stage struct {
	Index uint32
	// Started describes the stage. Nil: it was not run, for example because it was skipped.
	Started *spatev1.StageStarted
	// Progress is the stage's latest state: after its end, that of the whole stage. Nil: none came.
	Progress *spatev1.StageProgress
	// Ended is how the stage ended. Nil: it has not.
	Ended *spatev1.StageEnded
	// Verdict is the verdict so far, or after the end the stage's: "VALID", "SUSPECT", "INVALID", or empty if it was
	// not judged.
	Verdict string
	// Doubts are the reasons for the verdict so far. After the end they are those of the last window, if
	// the verdict is not VALID.
	Doubts []*spatev1.Doubt
	// Errors counts failures by their names in results.json, from window From on.
	Errors map[string]uint64
	// From is the number of the first window that was seen: not 0 if the run was followed late. It has no meaning
	// before the first window.
	From uint32

	next uint32 // number after that of the latest window
}

// InProgress reports whether the stage started and has not ended.
func (s *Stage) InProgress() bool { return s.Started != nil && s.Ended == nil }

// Elapsed returns the time since the stage's start, or after the end its duration, 0 if it is not known.
func (s *Stage) Elapsed() time.Duration { return s.Progress.GetElapsed().AsDuration() }

// Part returns which part of the stage has passed, from 0 to 1, by its time or its requests, whichever is more. It
// returns false if neither has a known end.
func (s *Stage) Part() (float64, bool) {
	if s.Ended != nil {
		return 1, true
	}
	part, known := 0.0, false
	if n := s.Started.GetExpectedRequests(); n > 0 {
		part, known = float64(s.Progress.GetCompleted())/float64(n), true
	}
	if d := s.Started.GetExpected().AsDuration(); d > 0 {
		part, known = max(part, float64(s.Elapsed())/float64(d)), true
	}
	return max(0, min(1, part)), known
}

// valid is the verdict on a stage without doubts.
const valid = "VALID"

// find returns the position of the stage with an index, or the one at which it belongs.
func (r *Run) find(index uint32) (int, bool) {
	return slices.BinarySearchFunc(r.stages, index, func(s *Stage, want uint32) int {
		return cmp.Compare(s.Index, want)
	})
}

// put returns the stage with an index, adding it if there is room. It returns nil if there is none.
func (r *Run) put(index uint32) *Stage {
	i, found := r.find(index)
	switch {
	case found:
		return r.stages[i]
	case len(r.stages) == maxStages:
		return nil
	}
	s := &Stage{Index: index}
	r.stages = slices.Insert(r.stages, i, s)
	return s
}

// progress takes the state of the stage in progress. The last one comes before the stage's end.
func (r *Run) progress(e *spatev1.StageProgress) {
	s := r.Stage(e.GetStageIndex())
	if s == nil || !s.InProgress() {
		return
	}
	s.Progress = e
	r.left.see(s.Started, e)
}

func (r *Run) stageEnded(e *spatev1.StageEnded) {
	s := r.put(e.GetStageIndex())
	if s == nil || s.Ended != nil {
		return
	}
	s.Ended = e
	if s.Verdict = e.GetVerdict(); s.Verdict == valid {
		s.Doubts = nil
	}
	r.left.spent += s.Elapsed()
}

// window takes one window. After a restart a coordinator sends the last ones again, with new numbers of events.
func (r *Run) window(e *spatev1.StageWindow) {
	s := r.Stage(e.GetStageIndex())
	if s == nil || s.Started == nil || e.GetNumber() < s.next {
		return
	}
	if proto.Size(e) > maxEvent {
		e = bare(e)
	}
	if s.next == 0 {
		s.From = e.GetNumber()
	}
	s.next = e.GetNumber() + 1
	s.count(e.GetErrors())
	if s.Ended == nil {
		s.Verdict, s.Doubts = e.GetVerdict(), e.GetDoubts()
	}
	r.windows.add(e)
	for _, part := range e.GetAgents() {
		if a := r.byName[part.GetName()]; a != nil {
			a.Latest, a.Stage, a.Window = part, e.GetStageIndex(), e.GetNumber()
		}
	}
}

// otherErrors counts errors of further classes.
const otherErrors = "other"

// count adds the failures of a window.
func (s *Stage) count(errors map[string]uint64) {
	if s.Errors == nil && len(errors) > 0 {
		s.Errors = make(map[string]uint64)
	}
	for class, n := range errors {
		if _, known := s.Errors[class]; !known && len(s.Errors) >= maxErrors {
			class = otherErrors
		}
		s.Errors[class] += n
	}
}

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
	return lists.Where(slices.Concat(r.windows.samples, r.windows.latest), func(w *spatev1.StageWindow) bool {
		return w.GetStageIndex() == stage
	})
}

// Distribution returns the values of a metric in a part of a window, by its name in results.json: ttft_ms, e2e_ms,
// tpot_ms, itl_ms. It returns nil if there were none.
func Distribution(part *spatev1.WindowPart, metric string) *spatev1.WindowDistribution {
	return lists.Find(part.GetDistributions(),
		func(d *spatev1.WindowDistribution) bool { return d.GetMetric() == metric })
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
