package torture

import (
	"github.com/spate-load/spate/e2e/torture/judge"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// watcher takes in the events of one connection that follows a run.
type watcher struct {
	notes *judge.Notes
	last  *spatev1.StageProgress
}

// take takes in an event. The last progress before a stage's end is of its whole length; others do not count, nor does
// one of a connection that broke in between.
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
