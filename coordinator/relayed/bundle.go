package relayed

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/streams"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Bundle has the values of some agents in one snapshot, and the agents' snapshots without them.
type Bundle struct {
	// Merged has the values. Its key lacks the sequence number.
	Merged *spatev1.Snapshot
	// Members are the agents' snapshots, at least one.
	Members []Member
}

// Member is a snapshot without its values, and its authenticated sender, zero if connections have no certificates.
type Member struct {
	Snapshot *spatev1.Snapshot
	Who      certs.Identity
}

// Snapshots returns the members' snapshots.
func (b Bundle) Snapshots() (all []*spatev1.Snapshot) {
	for _, m := range b.Members {
		all = append(all, m.Snapshot)
	}
	return all
}

// Keys returns the members' keys.
func (b Bundle) Keys() (keys []*spatev1.SnapshotKey) {
	for _, m := range b.Members {
		keys = append(keys, m.Snapshot.GetKey())
	}
	return keys
}

// All returns the indices of all members.
func (b Bundle) All() (all []int) {
	for i := range b.Members {
		all = append(all, i)
	}
	return all
}

// bundleOf completes a bundle: its snapshots lack what they have in common, and its values a name. It fails if no relay
// sends such a bundle.
func (p *push) bundleOf(m *spatev1.Bundle) (Bundle, error) {
	values := m.GetMerged()
	if values.GetKey() == nil || len(m.GetMembers()) == 0 {
		return Bundle{}, status.Errorf(codes.InvalidArgument, "bundle %d has no members or no run", m.GetNumber())
	}
	run := values.GetKey().GetRunId()
	values.Key = &spatev1.SnapshotKey{RunId: run, Agent: p.sourceOf(values.GetMerged()), Incarnation: p.number}
	b := Bundle{Merged: values}
	for _, one := range m.GetMembers() {
		if one.GetSender() != nil {
			if len(p.senders) == maxAgents {
				return Bundle{}, status.Errorf(codes.ResourceExhausted, "a relay with more than %d agents", maxAgents)
			}
			p.senders[one.GetStream()] = one.GetSender()
		}
		from, s := p.senders[one.GetStream()], one.GetSnapshot()
		if from == nil || s == nil {
			return Bundle{}, status.Errorf(codes.InvalidArgument, "bundle %d: no sender or snapshot of stream %d", m.GetNumber(),
				one.GetStream())
		}
		s.Key = &spatev1.SnapshotKey{
			RunId: run, Agent: from.GetAgent(), Incarnation: from.GetIncarnation(), Sequence: one.GetSequence(),
		}
		s.StageIndex, s.Window = values.GetStageIndex(), values.GetWindow()
		b.Members = append(b.Members, Member{s, p.identity(from.GetCertificate())})
	}
	return b, nil
}

// sourceOf names what the values of bundles come from. Each source has its own numbers, because regions are not equally
// far. No agent's name has a space.
func (p *push) sourceOf(m *spatev1.Merged) string {
	name := "relay " + p.relay
	if m.GetRegion() != "" {
		name += " of " + m.GetRegion()
	}
	if m.GetObserver() {
		name += " observers"
	}
	return name
}

// addBundle adds a bundle to its ledger and returns the answer.
func (p *push) addBundle(m *spatev1.Bundle, b Bundle) *spatev1.BundleAnswer {
	answer := &spatev1.BundleAnswer{Number: m.GetNumber()}
	alone, err := p.Coordinator.AddBundle(b)
	if err != nil {
		answer.Ended = streams.EndOf(err)
		return answer
	}
	for _, i := range alone {
		answer.Alone = append(answer.Alone, m.GetMembers()[i].GetStream())
	}
	return answer
}
