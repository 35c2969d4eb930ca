package lifecycle

import (
	"slices"

	"github.com/spate-load/spate/plans"
)

// serverSources returns the sources of server metrics that an agent scrapes. Sources are dealt in turn, by rank, to the
// agents that were there at the start, so that each source has exactly one reader. If the reader is lost, its sources
// are not read again in the stage, because the numbers of two readers could not be ordered.
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
