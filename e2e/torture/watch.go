package torture

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// watcher takes in the events of one connection that follows a run.
type watcher struct {
	evidence *Evidence
	last     *spatev1.StageProgress
}

// take takes in an event. The last progress before a stage's end is of its whole length; others do not count, nor does one of a connection
// that broke in between.
func (w *watcher) take(event *spatev1.RunEvent) {
	switch {
	case event.GetStageProgress() != nil:
		w.last = event.GetStageProgress()
	case event.GetStageEnded() != nil:
		if end := event.GetStageEnded(); w.last != nil && w.last.GetStageIndex() == end.GetStageIndex() {
			w.evidence.live(w.last)
		}
	case event.GetRunEnded() != nil:
		w.evidence.Ended = event.GetRunEnded()
	}
}

// live notes what followers were told of a whole stage.
func (e *Evidence) live(p *spatev1.StageProgress) {
	if e.Live == nil {
		e.Live = map[uint32]*spatev1.StageProgress{}
	}
	e.Live[p.GetStageIndex()] = p
}
