package scrape

import (
	"math"
	"strings"

	"github.com/spate-load/spate/plans/servermetrics"
)

// names are the names of wanted metrics, the most important first. A "*" at the end stands for any rest.
type names struct {
	exact    map[string]int // rank by name
	prefixes []ranked
}

// ranked is a prefix of names, with its rank.
type ranked struct {
	prefix string
	rank   int
}

// newNames returns the names that match some patterns, the most important first.
func newNames(patterns []string) names {
	n := names{exact: make(map[string]int, len(patterns))}
	for rank, pattern := range patterns {
		if prefix, open := strings.CutSuffix(pattern, "*"); open {
			n.prefixes = append(n.prefixes, ranked{prefix, rank})
		} else if _, known := n.exact[pattern]; !known {
			n.exact[pattern] = rank
		}
	}
	return n
}

// unwanted is the rank of a name that matches no pattern.
const unwanted = math.MaxInt

// rank returns the position of the first pattern that a name matches, or unwanted. The metrics that Spate adds to a
// reading are never wanted from a server, and the time at which a client library created a series is not a measurement.
func (n names) rank(name string) int {
	if name == servermetrics.Up || name == servermetrics.Dropped || strings.HasSuffix(name, "_created") {
		return unwanted
	}
	best, exact := n.exact[name]
	if !exact {
		best = unwanted
	}
	for _, p := range n.prefixes {
		if p.rank < best && strings.HasPrefix(name, p.prefix) {
			best = p.rank
		}
	}
	return best
}

// match reports whether a metric is wanted.
func (n names) match(name string) bool { return n.rank(name) != unwanted }

// rankOf returns the rank of a metric of a type. A counter may lack the _total that its name should end in, as in
// llm-d's simulator.
func (n names) rankOf(name string, counter bool) int {
	best := n.rank(name)
	if counter {
		best = min(best, n.rank(name+"_total"))
	}
	return best
}

// endings are the endings of the samples of one family.
var endings = [...]string{"_bucket", "_sum", "_count", "_total"}

// mayMatch reports whether a line with this name may belong to a wanted metric. It may return true where match returns
// false.
func (n names) mayMatch(name string) bool {
	stem := name
	for _, ending := range endings {
		if s, found := strings.CutSuffix(name, ending); found {
			stem = s
			break
		}
	}
	return n.match(name) || n.match(stem) || n.match(stem+"_total") || n.match(stem+"_sum") || n.match(stem+"_count")
}
