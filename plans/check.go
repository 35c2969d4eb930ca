package plans

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// plan checks what the rules of single fields cannot say.
func (c *checker) plan(p *spatev1.Plan, opts Options) {
	targets, workloads := make(map[string]int), make(map[string]int)
	for i, t := range p.GetTargets() {
		path := fmt.Sprintf("targets[%d]", i)
		c.unique(targets, "target", path, i, t.GetName())
		c.target(path, t)
	}
	for i, w := range p.GetWorkloads() {
		path := fmt.Sprintf("workloads[%d]", i)
		c.unique(workloads, "workload", path, i, workloadName(w))
		c.workload(path, w)
	}
	points := make(map[string]string)
	for i, l := range p.GetLoads() {
		path := fmt.Sprintf("loads[%d]", i)
		c.load(path, l)
		c.distinct(points, path, l)
	}
	c.size(p, opts.MaxStages)
}

func (c *checker) unique(seen map[string]int, what, path string, index int, name string) {
	first, again := seen[name]
	if !again {
		seen[name] = index
	} else if name != "" {
		c.wrong(path+".name", fmt.Sprintf("the name %q belongs to %ss[%d] already: give each %s a name of its own",
			name, what, first, what))
	}
}

func (c *checker) workload(path string, w *spatev1.Workload) {
	random := w.GetRandom()
	if random == nil {
		return
	}
	first, last := tokenIDs(random)
	switch {
	case last >= first:
	case random.GetLastTokenId() == 0:
		c.wrong(path+".random.first_token_id", fmt.Sprintf("is beyond the default last_token_id of %d: give last_token_id, too", last))
	default:
		c.wrong(path+".random.last_token_id", fmt.Sprintf("must be at least first_token_id (%d), got %d", first, last))
	}
}

func (c *checker) load(path string, l *spatev1.Load) {
	closed, open := c.has(path+".concurrency"), c.has(path+".rate")
	switch {
	case closed && open:
		c.wrong(path+".rate", "give concurrency or rate, not both: list a second load for the other")
	case !closed && !open:
		c.absent(path, "says neither concurrency nor rate: give one of them", "concurrency", "rate")
	case closed && c.has(path+".arrival"):
		c.wrong(path+".arrival", "goes with rate only: with concurrency a request starts when another ends")
	}
	if !closed && open && c.has(path+".requests_per_concurrency") {
		c.wrong(path+".requests_per_concurrency", "goes with concurrency only: with rate give requests or duration")
	}
	c.end(path, l)
}

// end checks what ends the stages of a load.
func (c *checker) end(path string, l *spatev1.Load) {
	requests, perConcurrency := path+".requests", path+".requests_per_concurrency"
	for field, value := range map[string]uint64{requests: l.GetRequests(), perConcurrency: l.GetRequestsPerConcurrency()} {
		if c.has(field) && value == 0 {
			c.wrong(field, "must be greater than 0: leave it out if it is not what ends the stage")
		}
	}
	switch {
	case c.has(requests) && c.has(perConcurrency):
		c.wrong(perConcurrency, "give requests or requests_per_concurrency, not both")
	case !c.has(requests) && !c.has(perConcurrency) && !c.has(path+".duration"):
		c.absent(path, "has no end: give requests, requests_per_concurrency or duration (a warm-up is no end)",
			"requests", "requests_per_concurrency", "duration")
	}
	for i, n := range l.GetConcurrency() {
		if uint64(n)*min(l.GetRequestsPerConcurrency(), maxPerConcurrency) > maxRequests {
			c.wrong(perConcurrency, fmt.Sprintf("times concurrency[%d] must be at most %d requests", i, maxRequests))
			break
		}
	}
}

// The schema's limits of requests and requests_per_concurrency.
const (
	maxRequests       = 1_000_000_000
	maxPerConcurrency = 1_000_000
)

// distinct refuses a load point that another load has, too: its stages would send the very same requests again, which a
// server's prefix cache answers sooner.
func (c *checker) distinct(seen map[string]string, path string, l *spatev1.Load) {
	if len(l.GetConcurrency()) > 0 && len(l.GetRate()) > 0 {
		return // A mistake of its own; the values are not one sweep.
	}
	own := make(map[string]string)
	for i, point := range loadPoints(l) {
		key, at := LoadKey(point), fmt.Sprintf("%s.%s[%d]", path, sweptField(l), i)
		if first := seen[key]; first != "" {
			c.wrong(at, fmt.Sprintf("is the same load point as %s: remove one, or give them different ends", first))
		}
		own[key] = at
	}
	for key, at := range own {
		if seen[key] == "" {
			seen[key] = at
		}
	}
}

func (c *checker) size(p *spatev1.Plan, most int) {
	points := 0
	for _, l := range p.GetLoads() {
		points += len(l.GetConcurrency()) + len(l.GetRate())
	}
	if n := len(p.GetTargets()) * len(p.GetWorkloads()) * points; n > most {
		c.wrong("loads", fmt.Sprintf("%d targets x %d workloads x %d load points are %d stages, more than the limit of %d: split the plan",
			len(p.GetTargets()), len(p.GetWorkloads()), points, n, most))
	}
}
