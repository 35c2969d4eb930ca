package supervisor

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Revise changes the stripe of the current assignment, and answers as to an assignment. A revision that is not newer is
// answered again and changes nothing. It must be called by one goroutine at a time.
func (r *Supervisor) Revise(m *spatev1.Revise, to Responder) {
	a, found, err := r.reviseUnarmed(m, to)
	if err == nil && a != nil {
		err = r.reviseLoad(a, m)
	}
	switch {
	case err != nil:
		to.Rejected(m.GetRef(), spatev1.FailureKind_FAILURE_KIND_AGENT, err.Error())
	case found != nil:
		to.Applied(m.GetRef(), found)
	}
}

// reviseUnarmed handles everything that needs no load under way. If there is such a load, it returns the load's
// assignment. found is nil if the answer follows when the preparation ends.
func (r *Supervisor) reviseUnarmed(
	m *spatev1.Revise, to Responder,
) (underWay *assignment, found *spatev1.Preparation, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ref := r.current, m.GetRef()
	switch {
	case a == nil && r.finished != nil && sameStage(r.finished.ref, ref):
		return nil, nil, fmt.Errorf("this agent's load of %s has ended", Describe(ref))
	case a == nil || !sameStage(a.ref, ref):
		return nil, nil, fmt.Errorf("%s was revised, but is not assigned", Describe(ref))
	}
	a.responder = to
	if a.ready != nil {
		found = a.ready.Found.Preparation
	}
	if !isNewer(ref, a.ref) {
		return nil, found, nil
	}
	if err := r.resources.Limits.CheckRate(a.rate, m.GetStripe()); err != nil {
		return nil, nil, err
	}
	if a.load != nil {
		return a, found, nil
	}
	return nil, found, r.reschedule(a, m)
}

// reschedule changes a stage that has not started. If the new schedule cannot be made, the assignment is dropped. The
// caller holds r.mu.
func (r *Supervisor) reschedule(a *assignment, m *spatev1.Revise) error {
	if a.ready != nil {
		if err := a.ready.Schedule(m.GetStripe(), r.resources.Limits); err != nil {
			r.drop()
			return err
		}
	}
	a.ref, a.stripe = m.GetRef(), m.GetStripe()
	return nil
}

// reviseLoad changes the stripe of a load under way. It does not hold r.mu meanwhile, because the load keeps emitting.
func (r *Supervisor) reviseLoad(a *assignment, m *spatev1.Revise) error {
	if err := a.load.Revise(m.GetStripe()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.ref = m.GetRef()
	return nil
}
