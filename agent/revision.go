package agent

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// revise changes the stripe of the current assignment, and answers as to an assignment. A revision that is not newer is
// answered again and changes nothing. It must be called by one goroutine at a time.
func (d *desk) revise(m *spatev1.Revise, by answer) {
	a, found, err := d.reviseUnarmed(m, by)
	if err == nil && a != nil {
		err = d.reviseLoad(a, m)
	}
	switch {
	case err != nil:
		by.rejected(m.GetRef(), spatev1.FailureKind_FAILURE_KIND_AGENT, err.Error())
	case found != nil:
		by.applied(m.GetRef(), found)
	}
}

// reviseUnarmed handles everything that needs no load under way. If there is such a load, it returns the load's
// assignment. found is nil if the answer follows when the preparation ends.
func (d *desk) reviseUnarmed(
	m *spatev1.Revise, by answer,
) (underWay *assignment, found *spatev1.Preparation, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ref := d.current, m.GetRef()
	switch {
	case a == nil && d.over != nil && sameStage(d.over.ref, ref):
		return nil, nil, fmt.Errorf("this agent's load of %s has ended", describe(ref))
	case a == nil || !sameStage(a.ref, ref):
		return nil, nil, fmt.Errorf("%s was revised, but is not assigned", describe(ref))
	}
	a.answer = by
	if a.share != nil {
		found = a.share.found.Preparation
	}
	if !newer(ref, a.ref) {
		return nil, found, nil
	}
	if err := d.kit.limits.checkRate(a.rate, m.GetStripe()); err != nil {
		return nil, nil, err
	}
	if a.load != nil {
		return a, found, nil
	}
	return nil, found, d.reschedule(a, m)
}

// reschedule changes a share that has not started. If the new schedule cannot be made, the assignment is dropped. The
// caller holds d.mu.
func (d *desk) reschedule(a *assignment, m *spatev1.Revise) error {
	if a.share != nil {
		if err := a.share.schedule(m.GetStripe(), d.kit.limits); err != nil {
			d.drop()
			return err
		}
	}
	a.ref, a.stripe = m.GetRef(), m.GetStripe()
	return nil
}

// reviseLoad changes the share of a load under way. It does not hold d.mu meanwhile, because the load keeps emitting.
func (d *desk) reviseLoad(a *assignment, m *spatev1.Revise) error {
	if err := a.load.revise(m.GetStripe()); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a.ref = m.GetRef()
	return nil
}
