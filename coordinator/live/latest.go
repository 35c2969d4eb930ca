package live

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// KeptFor is how long the rows of a stage that has ended are in Latest: five scrapes at an interval of a minute.
const KeptFor = 5 * time.Minute

// mostKept bounds the ended stages whose rows are kept, so that a search with short stages stays small.
const mostKept = 32

// freshFor is how long rows of the stage in progress are used again. It bounds how much of the merge's time those who
// ask often can take.
const freshFor = 500 * time.Millisecond

// Latest has the newest results of the stages in progress, and the last ones of stages that ended a short time ago, for
// those who come and ask, such as Prometheus. Without a reader it costs nothing, except at a stage's end. The zero
// value is ready for use. It is safe for concurrent use.
type Latest struct {
	mu    sync.Mutex
	runs  []followed // runs in progress, in the order in which they began
	fresh []sink.Row
	until time.Time // until when fresh is used again
	ended []endedStage
}

// followed is a run with its stages.
type followed struct {
	run    points.Run
	stages *Stages
}

// endedStage has the last rows of a stage.
type endedStage struct {
	rows  []sink.Row
	until time.Time
}

// follow adds a run: Rows has its stage in progress from now on.
func (l *Latest) follow(run points.Run, stages *Stages) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs, l.until = append(l.runs, followed{run, stages}), time.Time{}
}

// Leave removes a run that has ended. The rows of its last stages stay for KeptFor.
func (l *Latest) Leave(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = slices.DeleteFunc(l.runs, func(f followed) bool { return f.run.ID == run })
	l.until = time.Time{}
}

// Rows returns the rows of the stages in progress up to now, and of those that have ended within KeptFor. The caller
// must not change them.
func (l *Latest) Rows() []sink.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !now.Before(l.until) {
		l.fresh, l.until = l.inProgress(), now.Add(freshFor)
	}
	rows := l.fresh[:len(l.fresh):len(l.fresh)]
	l.forget(now)
	for _, s := range l.ended {
		rows = append(rows, s.rows...)
	}
	return rows
}

// inProgress returns the rows of the stages in progress. l.mu is held.
func (l *Latest) inProgress() (rows []sink.Row) {
	for _, f := range l.runs {
		if m, ok := f.stages.inProgress(); ok && m.Record.GetStartTime() != nil {
			rows = append(rows, points.ToDate(f.run, m.Record, m.merged)...)
		}
	}
	return rows
}

// forget removes the stages whose time is over. l.mu is held.
func (l *Latest) forget(now time.Time) {
	for len(l.ended) > 0 && (len(l.ended) > mostKept || !now.Before(l.ended[0].until)) {
		l.ended = l.ended[1:]
	}
}

// end keeps the last rows of a stage, before Stages forgets it.
func (l *Latest) end(run points.Run, rec *spatev1.StageRecord, merged *merge.Stage, r results.StageResult) {
	if rec.GetStartTime() == nil {
		return
	}
	rows := append(points.ToDate(run, rec, merged), points.Result(run, rec, r, merged)...)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.ended = append(l.ended, endedStage{rows, now.Add(KeptFor)})
	l.until = now // the stage is no longer in progress
	l.forget(now)
}

// Lag measures how far a coordinator lags behind its runs: how many windows were merged and published, and how long
// after its end the last window was published, in nanoseconds.
type Lag struct {
	Windows atomic.Uint64
	Delay   atomic.Int64
}
