package scrape

import (
	"math"
	"strings"

	"github.com/spate-load/spate/plans"
)

// names are the names of metrics that are wanted, in the order of their worth. A "*" at the end stands for any rest.
type names struct {
	exact    map[string]int // rank by name
	prefixes []ranked
}

// ranked is a prefix of names.
type ranked struct {
	prefix string
	rank   int
}

// newNames returns the names of some patterns, those that matter most first.
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

// unwanted is the rank of a name that no pattern has.
const unwanted = math.MaxInt

// rank is the place of a name among the patterns, unwanted if none has it. What a reading says of itself is nobody
// else's to say, and the time at which a client library created a series is no measurement.
func (n names) rank(name string) int {
	if name == plans.ServerUp || name == plans.ServerLeftOut || strings.HasSuffix(name, "_created") {
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

// have reports whether a metric is wanted.
func (n names) have(name string) bool { return n.rank(name) != unwanted }

// rankOf is the rank of a metric of a type. A counter may be told without the _total that its name should end in;
// llm-d's simulator does.
func (n names) rankOf(name string, counter bool) int {
	best := n.rank(name)
	if counter {
		best = min(best, n.rank(name+"_total"))
	}
	return best
}

// endings are those of the samples of one family.
var endings = [...]string{"_bucket", "_sum", "_count", "_total"}

// touch reports whether a line with a name may belong to a metric that is wanted. It may say yes where have says no.
func (n names) touch(name string) bool {
	stem := name
	for _, ending := range endings {
		if s, found := strings.CutSuffix(name, ending); found {
			stem = s
			break
		}
	}
	return n.have(name) || n.have(stem) || n.have(stem+"_total") || n.have(stem+"_sum") || n.have(stem+"_count")
}
