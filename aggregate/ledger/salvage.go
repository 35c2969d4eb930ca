package ledger

import (
	"errors"
	"fmt"
	"os"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// salvageBatch is how many snapshots are written together.
const salvageBatch = 64

// Salvage copies what is intact in the damaged ledger from to a new ledger at to: every record and snapshot whose
// checksum is right. The new ledger records what is lost, so that its result is incomplete and no coordinator resumes
// it. If the run's record is lost, planYAML replaces the plan in it. The damaged file stays unchanged. Salvage returns
// what is lost. If nothing is, damage is nil and no file is created. The error is ErrLocked, ErrForeign, or the reason
// why nothing can be read or written.
func Salvage(from, to string, planYAML []byte) (damage *DamageError, err error) {
	l, err := OpenReadOnly(from)
	if err == nil {
		return nil, l.Close()
	}
	if !errors.As(err, &damage) {
		return nil, err
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return damage, salvageTo(f, to, damage, planYAML)
}

// salvageTo copies what is intact to a new ledger.
func salvageTo(f *os.File, to string, damage *DamageError, planYAML []byte) (err error) {
	out, err := Create(to, Change{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	batch := make([]*spatev1.Snapshot, 0, salvageBatch)
	write := func() {
		if _, e := out.Append(batch); err == nil {
			err = e
		}
		batch = batch[:0]
	}
	c, walked := intactIn(f, true, func(s *spatev1.Snapshot) {
		if batch = append(batch, s); len(batch) == salvageBatch {
			write()
		}
	})
	write()
	if err = errors.Join(err, walked); err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	change := Change{Run: c.standIn(damage, planYAML), Submission: &spatev1.Submission{Name: c.plan}}
	for _, rec := range c.stages {
		change.Stages = append(change.Stages, rec)
	}
	return out.Put(change)
}

// standIn returns the run's record with the damage added. If the record itself is lost, standIn makes one from the
// snapshots and planYAML.
func (c *intactRecords) standIn(damage *DamageError, planYAML []byte) *spatev1.RunRecord {
	run := c.run
	if run == nil {
		run = &spatev1.RunRecord{RunId: c.id(), PlanYaml: planYAML}
		if c.rows {
			run.Records = "jsonl"
		}
	}
	run.Complete, run.Damage = false, damage.Lost
	return run
}
