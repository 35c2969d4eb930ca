package lifecycle

import (
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Effect is something that the shell must do, in the order in which Effects returns them. It is one of Send, PutStage,
// PutSeries, PutCheckpoint, Emit, Progress, CloseStage and Finish.
type Effect interface{ isEffect() }

// Send is a message to an agent. An Assign is without secrets: the shell adds them.
type Send struct {
	Agent   string
	Message *spatev1.ConnectResponse
}

// PutStage writes a stage's record to the ledger. The record must be durable before later effects are carried out.
type PutStage struct{ Record *spatev1.StageRecord }

// PutSeries adds what a search, a frontier or a sweep found to the run's record in the ledger.
type PutSeries struct{ Record *spatev1.SeriesRecord }

// PutCheckpoint writes Run.Checkpoint to the ledger, in one change with the records of the same batch. It is the last
// effect of its batch, and the checkpoint is the state after all of the batch's effects.
type PutCheckpoint struct {
	// Stage is the record of the stage in progress, which may have changed without its own PutStage. Nil: there is
	// none.
	Stage *spatev1.StageRecord
}

// Emit is an event for the run's followers.
type Emit struct{ Event *spatev1.RunEvent }

// Progress asks for a progress event of the stage. The machine fills in what only it knows; the shell adds what was
// merged.
type Progress struct {
	Time  time.Time
	State *spatev1.StageProgress
}

// CloseStage says that nothing more is expected in a stage. The shell computes the result and answers with Run.Closed.
type CloseStage struct {
	Record *spatev1.StageRecord
	// Keep has what the outcome must contain, see series.Asks. Nil: there is nothing.
	Keep *spatev1.Objectives
}

// Finish is the last effect but one: the run has ended, and the ledger can be closed once this batch is written. The
// event of the run's end follows it.
type Finish struct {
	Time     time.Time
	Outcome  spatev1.Outcome
	Complete bool
	Reason   string
	// Stages is the number of stages that were begun or skipped, plus the largest number that the rest of the plan
	// could have had.
	Stages uint32
}

func (Send) isEffect() {}

func (PutStage) isEffect() {}

func (PutSeries) isEffect() {}

func (PutCheckpoint) isEffect() {}

func (Emit) isEffect() {}

func (Progress) isEffect() {}

func (CloseStage) isEffect() {}

func (Finish) isEffect() {}

// Effects returns the effects since the last call.
func (r *Run) Effects() []Effect {
	if r.unsaved && !r.Ended() {
		e := PutCheckpoint{}
		if r.phase.inStage() {
			e.Stage = r.stage.snapshot()
		}
		r.do(e)
	}
	out := r.effects
	r.effects, r.unsaved = nil, false
	return out
}

// do queues an effect. An effect that writes a record also makes the checkpoint unsaved.
func (r *Run) do(e Effect) {
	switch e.(type) {
	case PutStage, PutSeries:
		r.unsaved = true
	}
	r.effects = append(r.effects, e)
}

func (r *Run) send(p *assignment, m *spatev1.ConnectResponse) {
	r.do(Send{Agent: p.agent.name(), Message: m})
}
