package torture

import (
	"github.com/spate-load/spate/e2e/torture/judge"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// watcher reads the events of one connection that follows a run.
type watcher struct {
	notes *judge.Notes
	last  *spatev1.StageProgress
}

// take records an event. Only the last progress before a stage's end covers the whole stage, so no other progress
// counts, nor does progress of a connection that broke in between.
func (w *watcher) take(event *spatev1.RunEvent) {
	switch {
	case event.GetStageProgress() != nil:
		w.last = event.GetStageProgress()
	case event.GetStageEnded() != nil:
		if w.last != nil && w.last.GetStageIndex() == event.GetStageEnded().GetStageIndex() {
			w.notes.Told[w.last.GetStageIndex()] = judge.Progress{Ended: w.last.GetCompleted(),
				Failed: w.last.GetFailed()}
		}
	case event.GetRunEnded() != nil:
		end := event.GetRunEnded()
		w.notes.Ended = &judge.Ended{Complete: end.GetComplete(), Reason: end.GetReason()}
	}
}
