package lifecycle

import (
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Effect is something the shell has to do, in the order in which Effects hands them out. It is one of Send, PutStage,
// PutSearch, PutCheckpoint, Emit, Progress, CloseStage and Finish.
type Effect interface{ isEffect() }

// Send is a message to an agent. An Assign goes without secrets: the shell, which has them, puts them in.
type Send struct {
	Agent   string
	Message *spatev1.ConnectResponse
}

// PutStage writes a stage's record to the ledger. It has to be durable before later effects are carried out.
type PutStage struct{ Record *spatev1.StageRecord }

// PutSearch adds what a search found to the run's record in the ledger.
type PutSearch struct{ Record *spatev1.SearchRecord }

// PutCheckpoint writes Run.Checkpoint to the ledger, as it is when all effects have been handed out, together with the
// records that came with it: it is the last effect of its batch.
type PutCheckpoint struct {
	// Stage is the record of the stage in progress, which may have changed without a PutStage of its own. Nil: there is
	// none.
	Stage *spatev1.StageRecord
}

// Emit is an event for those who follow the run.
type Emit struct{ Event *spatev1.RunEvent }

// Progress asks for an event about the stage in progress. What only the machine knows is filled in; the rest is for the
// shell to take from what was merged.
type Progress struct {
	Time  time.Time
	State *spatev1.StageProgress
}

// CloseStage says that nothing more is waited for in a stage. The shell answers with Run.Closed.
type CloseStage struct {
	Record *spatev1.StageRecord
	// Keep are the objectives whose values the outcome is to have. Nil: none.
	Keep *spatev1.Objectives
}

// Finish is the last effect but one: the ledger can be closed. The event of the end follows it.
type Finish struct {
	Time     time.Time
	Outcome  spatev1.Outcome
	Complete bool
	Reason   string
	// Stages is how many there were, and would have been at most.
	Stages uint32
}

func (Send) isEffect()          {}
func (PutStage) isEffect()      {}
func (PutSearch) isEffect()     {}
func (PutCheckpoint) isEffect() {}
func (Emit) isEffect()          {}
func (Progress) isEffect()      {}
func (CloseStage) isEffect()    {}
func (Finish) isEffect()        {}
