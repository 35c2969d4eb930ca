package scrape

import (
	"bytes"
	"math"
	"strings"

	"github.com/spate-load/spate/plans/servermetrics"
)

// filter returns the lines of a page that may belong to wanted metrics: types and samples, and samples of histogram
// buckets only if buckets is true. A page of vLLM has 700 lines, of which 150 are needed. Skipping the rest here takes
// a tenth of the time that it takes to parse them. The first sample always stays, so that a page in another format is
// detected.
func filter(page []byte, wanted names, buckets bool) []byte {
	kept := make([]byte, 0, len(page)/4)
	f := lineFilter{wanted: wanted, buckets: buckets}
	for len(page) > 0 {
		end := bytes.IndexByte(page, '\n') + 1
		if end == 0 {
			end = len(page)
		}
		if line := page[:end]; f.keep(line) {
			kept = append(kept, line...)
		}
		page = page[end:]
	}
	if len(kept) > 0 && kept[len(kept)-1] != '\n' {
		kept = append(kept, '\n')
	}
	return kept
}

// lineFilter decides line by line. The lines of a metric are consecutive, so it checks each name once.
type lineFilter struct {
	wanted   names
	buckets  bool
	sampled  bool   // a sample was kept
	bucket   []byte // name of the current histogram's buckets
	name     []byte // name of the last sample
	mayMatch bool   // the last name may be wanted
}

// keep reports whether a line must be parsed.
func (f *lineFilter) keep(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return false
	case line[0] == '#':
		return f.keepType(line)
	}
	name := nameOf(line)
	if len(name) == 0 { // the name is between the braces, in quotes
		f.sampled = true
		return true
	}
	if !bytes.Equal(name, f.name) || !f.sampled {
		f.name, f.mayMatch = name, f.wanted.mayMatch(string(name)) && (f.buckets || !bytes.Equal(name, f.bucket))
	}
	first := !f.sampled
	f.sampled = true
	return first || f.mayMatch
}

// keepType reports whether a comment declares the type of a metric that may be wanted.
func (f *lineFilter) keepType(line []byte) bool {
	words := bytes.Fields(line[1:])
	if len(words) != 3 || string(words[0]) != "TYPE" {
		return false
	}
	f.bucket = nil
	if string(words[2]) == "histogram" {
		f.bucket = append(append([]byte{}, words[1]...), "_bucket"...)
	}
	return f.wanted.mayMatch(string(words[1]))
}

// nameOf returns the name at the start of a sample.
func nameOf(line []byte) []byte {
	if end := bytes.IndexAny(line, "{ \t\r\n"); end >= 0 {
		return line[:end]
	}
	return line
}

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
