package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Change is a set of changes that are written together: the ledger contains all of them or none. Fields that are not
// set change nothing.
type Change struct {
	// Run replaces the run's record.
	Run *spatev1.RunRecord
	// Submission replaces what a restarted coordinator needs to resume the run.
	Submission *spatev1.Submission
	// Stages are added. They replace records of the same index.
	Stages []*spatev1.StageRecord
	// Checkpoint replaces the state of the run's state machine.
	Checkpoint *spatev1.Checkpoint
	// Events are added under their numbers.
	Events []*spatev1.FollowRunResponse
	// Discard removes the records and all snapshots of these stages, which will be measured again.
	Discard []uint32
}

// nothing reports whether the change changes nothing.
func (c Change) nothing() bool {
	return c.Run == nil && c.Submission == nil && c.Checkpoint == nil && len(c.Stages)+len(c.Events)+len(c.Discard) == 0
}

// Put writes a change in one transaction and blocks until it is durable. Put does not write an empty change, because
// each transaction waits for the disk.
func (l *Ledger) Put(c Change) error {
	if c.nothing() {
		return nil
	}
	return l.update("records", c.write)
}

// write writes the change in a transaction.
func (c Change) write(k *recordWriter) error {
	if err := c.putMeta(k); err != nil {
		return err
	}
	for _, stage := range c.Discard {
		if err := discard(k, stage); err != nil {
			return err
		}
	}
	for _, stage := range c.Stages {
		key := binary.BigEndian.AppendUint32(nil, stage.GetStage().GetIndex())
		if err := k.putMessage(stagesBucket, key, stage); err != nil {
			return err
		}
	}
	for _, event := range c.Events {
		if err := k.putMessage(eventsBucket, numberKey(event.GetNumber()), event); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a stage's record and its snapshots.
func discard(k *recordWriter, stage uint32) error {
	prefix := binary.BigEndian.AppendUint32(nil, stage)
	if err := k.remove(stagesBucket, prefix); err != nil {
		return err
	}
	return snapshotsOf(k.tx).discard(k, prefix)
}

// putMeta writes the records of which a ledger has only one.
func (c Change) putMeta(k *recordWriter) error {
	if c.Run != nil {
		if err := k.putMessage(metaBucket, runKey, c.Run); err != nil {
			return err
		}
	}
	if c.Submission != nil {
		if err := k.putMessage(metaBucket, submissionKey, c.Submission); err != nil {
			return err
		}
	}
	if c.Checkpoint != nil {
		return k.putMessage(metaBucket, checkpointKey, c.Checkpoint)
	}
	return nil
}

// Run returns the run's record.
func (l *Ledger) Run() (*spatev1.RunRecord, error) {
	run, err := meta[spatev1.RunRecord](l, "run record", runKey)
	return cmp.Or(run, &spatev1.RunRecord{}), err
}

// Submission returns what the run was started with, or nil if the ledger has none because submitting the run was
// interrupted.
func (l *Ledger) Submission() (*spatev1.Submission, error) {
	return meta[spatev1.Submission](l, "submission", submissionKey)
}

// Checkpoint returns the last state of the run's state machine, or nil if there is none because the run never started.
func (l *Ledger) Checkpoint() (*spatev1.Checkpoint, error) {
	return meta[spatev1.Checkpoint](l, "checkpoint", checkpointKey)
}

// readRecord decodes the message of a record, and checks its checksum.
func readRecord(bucket, key, record []byte, into proto.Message) error {
	content, err := unsealed(bucket, key, record)
	if err != nil {
		return &DamageError{Lost: []string{fmt.Sprintf("%s %x: %v", bucket, key, err)}}
	}
	return proto.Unmarshal(content, into)
}

// meta reads a record of which a ledger has only one. It returns nil if it was never written.
func meta[T any, M interface {
	*T
	proto.Message
}](l *Ledger, what string, key []byte) (found M, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		record := tx.Bucket(metaBucket).Get(key)
		if record == nil {
			return nil
		}
		found = new(T)
		return readRecord(metaBucket, key, record, found)
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return found, nil
}

// Stages returns the records of the run's stages so far, sorted by index.
func (l *Ledger) Stages() ([]*spatev1.StageRecord, error) {
	var stages []*spatev1.StageRecord
	err := l.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(stagesBucket).ForEach(func(key, record []byte) error {
			stage := &spatev1.StageRecord{}
			stages = append(stages, stage)
			return readRecord(stagesBucket, key, record, stage)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read stage records: %w", err)
	}
	return stages, nil
}

// Events calls fn with each event whose number is above after, in order, and stops at fn's first error. fn may keep the
// event and must not write to the ledger.
func (l *Ledger) Events(after uint64, fn func(*spatev1.FollowRunResponse) error) error {
	err := l.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(eventsBucket).Cursor()
		for k, v := c.Seek(numberKey(after + 1)); k != nil; k, v = c.Next() {
			e := &spatev1.FollowRunResponse{}
			if err := readRecord(eventsBucket, k, v, e); err != nil {
				return err
			}
			if err := fn(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return nil
}

// numberKey returns the key of an event or an arrival. Keys sort by number.
func numberKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }
