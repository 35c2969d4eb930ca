package ledger

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// intactRecords lists what is intact in a damaged ledger, so that the rest can be named as lost.
type intactRecords struct {
	run      *spatev1.RunRecord // nil: lost
	plan     string             // the plan's name; empty: lost, or the plan has none
	lost     []string           // lost records, in words
	stages   map[uint32]*spatev1.StageRecord
	events   int                // number of lost events
	deep     bool               // snapshots were read
	names    map[string]uint64  // by name: the number of arrival of each snapshot
	arrivals map[string]covered // by name: the windows of intact snapshots
	rows     bool               // an intact snapshot has request rows
	runID    string             // from the snapshots
}

// covered is the range of windows of a snapshot.
type covered struct{ first, last uint32 }

// intactIn walks a damaged ledger. Unless each is nil, intactIn calls it with each intact snapshot.
func intactIn(f *os.File, deep bool, each func(*spatev1.Snapshot)) (*intactRecords, error) {
	w, err := newWalk(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	c := &intactRecords{deep: deep, stages: map[uint32]*spatev1.StageRecord{}, names: map[string]uint64{},
		arrivals: map[string]covered{}}
	w.wanted = func(bucket string) bool { return deep || bucket != string(arrivalBucket) }
	w.record = func(bucket string, key, record []byte) {
		content, err := unsealed([]byte(bucket), key, record)
		switch bucket {
		case string(arrivalBucket):
			c.arrival(content, err, each)
		case string(snapshotBucket):
			if _, _, ok := nameOf(key); ok && err == nil && len(content) == 8 {
				c.names[string(key)] = binary.BigEndian.Uint64(content)
			}
		case string(stagesBucket):
			c.stage(key, content, err)
		case string(eventsBucket):
			if err != nil {
				c.events++
			}
		case string(metaBucket):
			c.meta(string(key), content, err)
		}
	}
	w.all()
	if deep {
		w.orphans(func(key, record []byte) {
			if content, err := unsealed(arrivalBucket, key, record); err == nil && c.owns(key, content) {
				c.arrival(content, nil, each)
			}
		})
	}
	return c, nil
}

// owns reports whether a snapshot on an orphan page, to which no other page points, belongs to the ledger. It does if
// the ledger has its name with the same number of arrival. Interrupted writes leave orphan pages, too.
func (c *intactRecords) owns(key, content []byte) bool {
	s := &spatev1.Snapshot{}
	if len(key) != 8 || proto.Unmarshal(content, s) != nil {
		return false
	}
	name := snapshotKey(s.GetStageIndex(), s.GetKey())
	number, known := c.names[string(name)]
	_, found := c.arrivals[string(name)]
	return known && !found && number == binary.BigEndian.Uint64(key)
}

// arrival adds a snapshot to the intact records if it is intact.
func (c *intactRecords) arrival(content []byte, damage error, each func(*spatev1.Snapshot)) {
	s := &spatev1.Snapshot{}
	if damage != nil || proto.Unmarshal(content, s) != nil || s.GetKey().GetAgent() == "" {
		return
	}
	windows := covered{measure.FirstWindow(s), s.GetWindow()}
	c.arrivals[string(snapshotKey(s.GetStageIndex(), s.GetKey()))] = windows
	c.runID, c.rows = s.GetKey().GetRunId(), c.rows || len(s.GetRecords()) > 0
	if each != nil {
		each(s)
	}
}

// stage adds the record of a stage to the intact records.
func (c *intactRecords) stage(key, content []byte, damage error) {
	rec := &spatev1.StageRecord{}
	if damage == nil && proto.Unmarshal(content, rec) == nil {
		c.stages[rec.GetStage().GetIndex()] = rec
		return
	}
	if len(key) == 4 {
		c.lost = append(c.lost, fmt.Sprintf("the record of stage %d", binary.BigEndian.Uint32(key)+1))
	}
}

// meta adds a record of which a ledger has only one to the intact records.
func (c *intactRecords) meta(key string, content []byte, damage error) {
	if damage != nil {
		if key == string(submissionKey) || key == string(checkpointKey) {
			c.lost = append(c.lost, "the run's "+key)
		}
		return
	}
	switch key {
	case string(runKey):
		run := &spatev1.RunRecord{}
		if proto.Unmarshal(content, run) == nil {
			c.run = run
		}
	case string(submissionKey):
		s := &spatev1.Submission{}
		if proto.Unmarshal(content, s) == nil {
			c.plan = s.GetName()
		}
	}
}

// damageOf returns a DamageError that names what a damaged ledger has lost. wrong is what is wrong with the file.
func damageOf(f *os.File, deep bool, wrong []string) error {
	c, err := intactIn(f, deep, nil)
	if err != nil {
		return err
	}
	return &DamageError{Run: c.id(), Lost: append(c.losses(), wrong...)}
}

// id returns the run's ID from the run's record or the snapshots, or "" if it is not known.
func (c *intactRecords) id() string { return cmp.Or(c.run.GetRunId(), c.runID) }

// mostLosses is the largest number of losses that are named.
const mostLosses = 16

// losses returns what is lost, in words: records, then snapshots by stage, agent and windows.
func (c *intactRecords) losses() []string {
	out := slices.Clone(c.lost)
	if c.run == nil {
		out = append(out, "the run's record: its plan and how it ended")
	}
	if c.events > 0 {
		out = append(out, fmt.Sprintf("%d of its events", c.events))
	}
	for _, stage := range c.missingStages() {
		out = append(out, fmt.Sprintf("the record of stage %d, without which its snapshots have no meaning", stage+1))
	}
	if c.deep {
		out = append(out, c.snapshotsLost()...)
	}
	if over := len(out) - mostLosses; over > 0 {
		out = append(out[:mostLosses], fmt.Sprintf("and %d more", over))
	}
	return out
}

// missingStages returns the stages that have snapshots but no record.
func (c *intactRecords) missingStages() []uint32 {
	missing := map[uint32]bool{}
	for name := range c.arrivals {
		if stage := binary.BigEndian.Uint32([]byte(name)); c.stages[stage] == nil {
			missing[stage] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// snapshotsLost returns the lost snapshots, in words.
func (c *intactRecords) snapshotsLost() (out []string) {
	all := maps.Clone(c.names)
	for name := range c.arrivals {
		all[name] = 0
	}
	processes := func(a, b string) int {
		return cmp.Or(cmp.Compare(a[:4], b[:4]), cmp.Compare(a[processAt:], b[processAt:]))
	}
	names := slices.Collect(maps.Keys(all))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(processes(a, b), cmp.Compare(a, b)) })
	for i := 0; i < len(names); {
		end := i + 1
		for end < len(names) && processes(names[end], names[i]) == 0 {
			end++
		}
		out = append(out, c.processLost(names[i:end])...)
		i = end
	}
	return out
}

// processLost returns the lost snapshots of a process, in words: consecutive snapshots together. names are the names of
// all known snapshots of the process, sorted.
func (c *intactRecords) processLost(names []string) (out []string) {
	before, from := -1, uint64(0) // last window and sequence of the intact snapshot before
	for i, name := range names {
		stage, k, _ := nameOf([]byte(name))
		windows, intact := c.arrivals[name]
		if i == 0 {
			from = k.GetSequence() - 1
		}
		if intact {
			if lost := k.GetSequence() - from - 1; lost > 0 {
				out = append(out, lossText(stage, k, lost, before+1, int(windows.first)-1))
			}
			before, from = int(windows.last), k.GetSequence()
		} else if i == len(names)-1 {
			out = append(out, lossText(stage, k, k.GetSequence()-from, before+1, -1))
		}
	}
	return out
}

// lossText returns the words for lost snapshots of a process. Their windows, from and to, are known from the intact
// neighbours. to is -1 if no intact snapshot follows.
func lossText(stage uint32, k *spatev1.SnapshotKey, lost uint64, from, to int) string {
	windows := fmt.Sprintf("windows %d to %d", from, to)
	switch {
	case to < 0:
		windows = fmt.Sprintf("from window %d on", from)
	case from >= to:
		windows = fmt.Sprintf("window %d", to)
	}
	plural := "s"
	if lost == 1 {
		plural = ""
	}
	return fmt.Sprintf("stage %d, agent %q (process %x), %s: %d snapshot%s", stage+1, k.GetAgent(), k.GetIncarnation(),
		windows, lost, plural)
}
