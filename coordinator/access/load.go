package access

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"

	"github.com/spate-load/spate/agent/allow"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// hostLimit is the most that some hosts may get together from all runs in progress.
type hostLimit struct {
	hosts      allow.List
	maxStreams float64 // requests in flight
	maxRate    float64 // requests per second that open loops start
}

func (f limitForm) limit() (l hostLimit, err error) {
	if l.hosts, err = hostsOf(f.Hosts); err != nil {
		return l, err
	}
	if f.MaxStreams == nil && f.MaxRate == nil {
		return l, errors.New("give max_streams, max_rate or both")
	}
	l.maxStreams, l.maxRate = math.Inf(1), math.Inf(1)
	for _, of := range []struct {
		name string
		from *float64
		to   *float64
	}{{"max_streams", f.MaxStreams, &l.maxStreams}, {"max_rate", f.MaxRate, &l.maxRate}} {
		if of.from == nil {
			continue
		}
		if !(*of.from >= 0) || math.IsInf(*of.from, 1) {
			return l, fmt.Errorf("%s: %v: want a number from 0", of.name, *of.from)
		}
		*of.to = *of.from
	}
	return l, nil
}

// CheckTargets returns an error for the first target that the plans of a caller's role may not load. Names are not
// looked up: a host that is allowed by its address must be given by it.
func (p *Policy) CheckTargets(c Caller, stages []*spatev1.Stage) error {
	if p == nil {
		return nil
	}
	role := p.RoleOf(c)
	list, limited := p.targets[role]
	if !limited {
		return nil
	}
	for _, s := range stages {
		for _, address := range addressesOf(s.GetTarget()) {
			if !has(list, address) {
				return fmt.Errorf("target %s: %s: plans of a %s may load only %s", s.GetTarget().GetName(), address, role,
					list)
			}
		}
	}
	return nil
}

// addressesOf returns the URLs to which agents send something for a target.
func addressesOf(t *spatev1.Target) []string {
	all := slices.Concat(t.GetEndpoints(), servermetrics.Sources(t))
	if proxy := t.GetConnection().GetProxy(); proxy != "" {
		all = append(all, proxy)
	}
	return all
}

// has reports whether a list has the host of a URL.
func has(list allow.List, address string) bool {
	u, err := url.Parse(naming.BaseURL(address))
	return err == nil && list.CheckName(u) == nil
}

// CheckLoad returns an error with the figures if the stages of a plan, beside those of the runs in progress, may give a
// host more than its limit. The stages of a run come one after another, so that the run counts with its highest.
func (p *Policy) CheckLoad(plan []*spatev1.Stage, inProgress ...[]*spatev1.Stage) error {
	if p == nil {
		return nil
	}
	var errs []error
	for _, limit := range p.limits {
		mine, others := limit.most(plan), load{}
		if mine == (load{}) {
			continue
		}
		for _, run := range inProgress {
			others = others.plus(limit.most(run))
		}
		errs = append(errs, limit.check("max_streams", "streams", limit.maxStreams, mine.streams, others.streams),
			limit.check("max_rate", "requests per second", limit.maxRate, mine.rate, others.rate))
	}
	return errors.Join(errs...)
}

// check compares a sum with a limit.
func (l hostLimit) check(name, unit string, most, mine, others float64) error {
	switch {
	case mine+others <= most || mine == 0:
		return nil
	case math.IsInf(mine, 1):
		return fmt.Errorf("%s: the plan gives no bound on its %s, and %s is %g: %s", l.hosts, unit, name, most,
			remedies[name])
	case others > 0:
		return fmt.Errorf("%s: the plan asks for %g %s, runs in progress have %g, and %s is %g", l.hosts, mine, unit,
			others, name, most)
	}
	return fmt.Errorf("%s: the plan asks for %g %s, and %s is %g", l.hosts, mine, unit, name, most)
}

// remedies say how a plan bounds what it asks for.
var remedies = map[string]string{
	"max_streams": "give open loops max_in_flight and searches an end; a sweep has no bound",
	"max_rate":    "give searches an end; replays and sweeps have no bound",
}

// load is what a host gets at most: requests in flight, and requests per second that are started by a schedule.
// Infinite: the plan gives no bound.
type load struct{ streams, rate float64 }

func (l load) plus(other load) load { return load{l.streams + other.streams, l.rate + other.rate} }

// most returns the highest load of a run's stages on the hosts of a limit.
func (l hostLimit) most(stages []*spatev1.Stage) (highest load) {
	for _, s := range stages {
		if !slices.ContainsFunc(s.GetTarget().GetEndpoints(), func(e string) bool { return has(l.hosts, e) }) {
			continue
		}
		one := loadOf(s.GetLoad())
		highest.streams, highest.rate = max(highest.streams, one.streams), max(highest.rate, one.rate)
	}
	return highest
}

// loadOf returns the highest load of a load point, or of the stages that a template becomes.
func loadOf(p *spatev1.LoadPoint) load {
	inFlight := math.Inf(1)
	if n := p.GetMaxInFlight(); n > 0 {
		inFlight = float64(n)
	}
	rate, concurrency := loadpoint.Varied(p)
	switch {
	case p.GetSweep() != nil:
		return load{math.Inf(1), math.Inf(1)}
	case concurrency != nil:
		return load{streams: end(concurrency)}
	case rate != nil:
		return load{inFlight, end(rate)}
	case p.GetConcurrency() > 0:
		return load{streams: float64(p.GetConcurrency())}
	case p.GetReplaySpeed() > 0:
		return load{inFlight, math.Inf(1)}
	}
	return load{inFlight, p.GetRate()}
}

// end returns the upper end of a search or a frontier.
func end(b *spatev1.Bounds) float64 {
	if b.GetTo() == 0 {
		return math.Inf(1)
	}
	return b.GetTo()
}
