package lifecycle

import (
	"slices"

	"github.com/spate-load/spate/plans"
)

// serverSources are the sources of server metrics that an agent of the load reads: they are dealt out in turn, by rank,
// to those that were there at the start, so that each source has one reader whoever is asked. One whose agent is lost
// is read no more in the stage: nobody would know which of two readers' numbers came first.
func (s *stage) serverSources(p *share) (sources []uint32) {
	readers := s.those(func(q *share) bool { return !q.observer && q.joined == 0 })
	place := slices.Index(readers, p)
	if place < 0 {
		return nil
	}
	for source := place; source < len(plans.ServerSources(s.record.GetStage().GetTarget())); source += len(readers) {
		sources = append(sources, uint32(source))
	}
	return sources
}
