package merge

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/bundle"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Bundle is a bundle that may enter the ledger of a run and stage: see package bundle.
type Bundle struct {
	merged  Checked
	members []Checked
}

// Snapshots returns the bundle's snapshots, that with the values first.
func (b Bundle) Snapshots() []*spatev1.Snapshot {
	all := []*spatev1.Snapshot{b.merged.snapshot}
	for _, m := range b.members {
		all = append(all, m.snapshot)
	}
	return all
}

// CheckBundle returns a bundle for Stage.AddBundle to merge. If some of its members may not enter the ledger of a run
// and stage, or not with the others, CheckBundle returns their indices. An error says what is wrong with the bundle
// itself. CheckBundle is pure and may be called concurrently.
func CheckBundle(
	merged *spatev1.Snapshot, members []*spatev1.Snapshot, run *spatev1.RunRecord, stage *spatev1.StageRecord,
) (b Bundle, misfits []int, err error) {
	var takenOut takings
	seen := make(map[AgentKey]bool, len(members))
	for i, s := range members {
		checked, err := check(s, run, stage)
		process := AgentKey{s.GetKey().GetAgent(), s.GetKey().GetIncarnation()}
		if err != nil || seen[process] || !fits(s, merged, stage) {
			misfits = append(misfits, i)
			continue
		}
		seen[process] = true
		b.members = append(b.members, checked)
		takenOut.takeOut(s)
	}
	if len(misfits) > 0 {
		return Bundle{}, misfits, nil
	}
	if b.merged, err = checkMergedValues(merged, run, stage); err != nil {
		return Bundle{}, nil, err
	}
	var addedUp takings
	addedUp.addUp(b.merged)
	if reason := differ(takenOut, addedUp); reason != "" {
		return Bundle{}, nil, errors.New(reason)
	}
	return b, nil, nil
}

// takings are what relays took out of snapshots: the number of values by metric, and the sum of the shares.
type takings struct {
	values [measure.Count]uint64
	shares bundle.Shares
}

// takeOut adds what was taken out of a snapshot that passed the check.
func (t *takings) takeOut(s *spatev1.Snapshot) {
	for m, n := range s.GetTakenOut() {
		t.values[m] += n
	}
	t.shares = t.shares.Plus(bundle.Shared(s))
}

// addUp adds what the sums of a bundle have.
func (t *takings) addUp(c Checked) {
	for _, parts := range c.decoded[:len(c.snapshot.GetSeries())] {
		for _, p := range parts {
			t.values[p.metric] += p.values.Count()
		}
	}
	t.shares = t.shares.Plus(bundle.SharesOf(c.snapshot))
}

// fits reports whether a snapshot can be a member of a bundle: it is of the same window and region, and has no values.
func fits(s, merged *spatev1.Snapshot, stage *spatev1.StageRecord) bool {
	a, of := Assigned(stage, s.GetKey()), merged.GetMerged()
	if s.FirstWindow != nil || s.GetWindow() != merged.GetWindow() || s.GetMerged() != nil || len(s.GetTurns()) > 0 ||
		len(s.GetShares()) > 0 || a.GetAgent().GetRegion() != of.GetRegion() || a.GetObserver() != of.GetObserver() {
		return false
	}
	for _, series := range s.GetSeries() {
		if len(series.GetDistributions()) > 0 {
			return false
		}
	}
	counts := s.GetTakenOut()
	return len(counts) > 0 && len(counts) <= measure.Count && slices.Max(counts) <= measure.MaxValues
}

// checkMergedValues checks the values of a bundle.
func checkMergedValues(s *spatev1.Snapshot, run *spatev1.RunRecord, stage *spatev1.StageRecord) (Checked, error) {
	bare := &spatev1.Snapshot{
		Key: s.GetKey(), StageIndex: s.GetStageIndex(), Window: s.GetWindow(), Series: s.GetSeries(),
		Turns: s.GetTurns(), Merged: s.GetMerged(), Shares: s.GetShares(),
	}
	size := proto.Size(s)
	switch {
	case s.GetMerged() == nil || proto.Size(bare) != size:
		return Checked{}, errors.New("its values are not those of a bundle")
	case size > MaxSnapshotBytes:
		return Checked{}, fmt.Errorf("its values have %d bytes, more than %d", size, MaxSnapshotBytes)
	case s.GetKey().GetRunId() != run.GetRunId() || s.GetStageIndex() != stage.GetStage().GetIndex():
		return Checked{}, errors.New("its values are of another stage")
	}
	for _, series := range s.GetSeries() {
		if series.GetCounters() != nil || len(series.GetErrors())+len(series.GetModels()) > 0 {
			return Checked{}, errors.New("its values have counters")
		}
	}
	endpoints := len(stage.GetStage().GetTarget().GetEndpoints())
	decoded, err := checkAllSeries(s.GetSeries(), endpoints, partsOfMixture(stage.GetStage()))
	if err != nil {
		return Checked{}, err
	}
	turns, err := checkAllSeries(s.GetTurns(), measure.TurnClasses, 1)
	if err != nil {
		return Checked{}, fmt.Errorf("turns: %w", err)
	}
	return Checked{s, append(decoded, turns...)}, checkShares(s)
}

// differ returns how the sums of bundles differ from what was taken out of snapshots, in words. Empty: they do not.
func differ(takenOut, addedUp takings) string {
	for _, m := range measure.Metrics() {
		if out, in := takenOut.values[m.ID], addedUp.values[m.ID]; out != in {
			return fmt.Sprintf("has %d values of %s in the sums of relays, but %d were taken out of snapshots for them", in,
				m.Name, out)
		}
	}
	for _, reason := range sharesDiffer(addedUp.shares, takenOut.shares) {
		return "in the sums of relays: " + reason
	}
	return ""
}

// Discrepancy returns how the values that relays took out of the snapshots of the region's agents differ from those
// that came in their place, in words. Empty: they do not.
func (r *Region) Discrepancy() string { return differ(r.takenOut, r.addedUp) }

// AddBundle merges all of a bundle at once. On an error, which only a full histogram causes, the rest is not merged.
func (s *Stage) AddBundle(b Bundle) error {
	return s.addAll(append([]Checked{b.merged}, b.members...)...)
}

// mergeValues merges the values of a bundle. s.mu is held.
func (s *Stage) mergeValues(m *spatev1.Merged, snapshot *spatev1.Snapshot, decoded [][]part) error {
	regions := s.sums.Regions
	if m.GetObserver() {
		regions = s.sums.ObserverRegions
	}
	region := regions[m.GetRegion()]
	if region == nil {
		return errStranger
	}
	if s.sums.Total.full() || region.full() {
		return histogram.ErrFull
	}
	s.advance(snapshot.GetWindow())
	region.addedUp.addUp(Checked{snapshot, decoded})
	for i, series := range snapshot.GetSeries() {
		at := place{first: snapshot.GetWindow(), window: snapshot.GetWindow(), endpoint: series.GetEndpoint()}
		s.share(cell{region, m.GetRegion(), at.window, at.endpoint, series.GetPart(), m.GetObserver()},
			pendingSeries{series, decoded[i], at})
	}
	if !m.GetObserver() {
		s.sums.addTurns(snapshot, decoded[len(snapshot.GetSeries()):])
		s.addShares(snapshot)
	}
	return nil
}
