// Package audit checks whether printed numbers of load tests can be true together: those of Spate, of other load
// generators, and of reports. Every identity holds by the definition of what it ties; a number contradicts it only if
// no values that round to what is printed agree. docs/audit.md has the identities with their sources.
package audit

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Quantities of a row. Latencies and lengths have a statistic behind: "ttft.mean", "e2e.p99".
const (
	requests     = "requests"
	failed       = "failed"
	duration     = "duration"
	input        = "input tokens"
	output       = "output tokens"
	requestRate  = "requests/s"
	inputRate    = "input tokens/s"
	outputRate   = "output tokens/s"
	totalRate    = "total tokens/s"
	peakRate     = "peak output tokens/s"
	goodput      = "goodput"
	concurrency  = "concurrency limit"
	rate         = "asked requests/s"
	meanInFlight = "mean concurrency"
	ttft         = "ttft"
	tpot         = "tpot"
	itl          = "itl"
	e2e          = "e2e"
	isl          = "isl"
	osl          = "osl"
	mean         = ".mean"
)

// Report is what an audit of a file found.
type Report struct {
	// What was found in the file: "results of GuideLLM".
	What string `json:"what"`
	// Rows is the number of measurements; Contradicted of them do not agree with themselves. Of others Doubtful are not
	// impossible, and so unlikely that there must be a reason.
	Rows         int `json:"rows"`
	Contradicted int `json:"contradicted"`
	Doubtful     int `json:"doubtful"`
	// Copies is how many rows have the numbers of an earlier one.
	Copies int `json:"copies"`
	// Findings by row.
	Findings []Finding `json:"findings"`
	// Unchecked are identities that no row has the numbers for.
	Unchecked []string `json:"unchecked"`
}

// Finding is a number that cannot be true together with others of its row.
type Finding struct {
	// Row counts from 1. Line is where it stands, 0 in JSON. Name is what the file calls it.
	Row  int    `json:"row"`
	Line int    `json:"line"`
	Name string `json:"name"`
	// Label and Printed are the number as it stands in the file.
	Label   string `json:"label"`
	Printed string `json:"printed"`
	// Identity that it contradicts, in words.
	Identity string `json:"identity"`
	// Bound says how the number must lie to Low and High, which are in its unit: "=", "<=", ">=".
	Bound string  `json:"bound"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Off is by what share the number is beyond the nearest that would agree.
	Off float64 `json:"off"`
	// Doubt: the number may be true, but then something else went wrong.
	Doubt bool `json:"doubt"`
}

// File audits the contents of a file. It returns an error for what it cannot read.
func File(data []byte) (*Report, error) {
	what, rows, err := parse(data)
	if err != nil {
		return nil, err
	}
	r := &Report{What: what, Rows: len(rows), Findings: []Finding{}, Unchecked: []string{}}
	checked := map[string]bool{}
	seen := map[string]bool{}
	for i := range rows {
		fingerprint := rows[i].fingerprint()
		if seen[fingerprint] {
			r.Copies++
			continue
		}
		seen[fingerprint] = true
		found := rows[i].audit(checked)
		if i > 0 {
			found = append(found, rows[i].faster(&rows[i-1])...)
		}
		switch {
		case slices.ContainsFunc(found, func(f Finding) bool { return !f.Doubt }):
			r.Contradicted++
		case len(found) > 0:
			r.Doubtful++
		}
		for _, f := range found {
			f.Row, f.Line, f.Name = i+1, rows[i].line, rows[i].name
			r.Findings = append(r.Findings, f)
		}
	}
	for _, id := range identities {
		if !checked[id.words] && id.told {
			r.Unchecked = append(r.Unchecked, id.words)
		}
	}
	return r, nil
}

// Holds is the number of rows in which nothing was found.
func (r *Report) Holds() int { return r.Rows - r.Contradicted - r.Doubtful - r.Copies }

// fingerprint is the same for rows with the same numbers.
func (r *row) fingerprint() string {
	var all []string
	for quantity, n := range r.numbers {
		all = append(all, quantity+" "+n.text)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// audit returns what is found in a row by itself, the largest first: of each number the worst.
func (r *row) audit(checked map[string]bool) []Finding {
	worst := map[string]Finding{}
	for i := range identities {
		id := identities[i]
		stated, ok := r.numbers[id.of]
		values := make([]interval, len(id.from))
		for i, quantity := range id.from {
			n, known := r.value(quantity)
			values[i], ok = n, ok && known
		}
		if !ok || id.when != nil && !id.when(r) {
			continue
		}
		checked[id.words] = true
		want := id.value(values)
		if id.bound == "=" && want.low == 0 {
			id.bound = "<=" // over a duration that is known from below
		}
		off := id.off(stated.interval, want)
		if off == 0 || math.IsInf(want.high, 0) || math.IsInf(off, 0) || math.IsNaN(off) {
			continue // what is divided by may have been rounded to 0
		}
		f := stated.finding(id.words, id.bound, want, off)
		f.Doubt = id.doubt
		if before, there := worst[f.Label]; !there || math.Abs(f.Off) > math.Abs(before.Off) {
			worst[f.Label] = f
		}
	}
	return slices.SortedFunc(maps.Values(worst), func(a, b Finding) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Off), math.Abs(a.Off)), cmp.Compare(a.Label, b.Label))
	})
}

// finding returns what is wrong with a number, in its unit.
func (n *number) finding(identity, bound string, want interval, off float64) Finding {
	return Finding{Label: n.label, Printed: n.text, Identity: identity, Bound: bound, Low: want.low / n.scale,
		High: want.high / n.scale, Off: off}
}

// fasterShare is by what share a row at a higher load may be faster than the one before by chance.
const fasterShare = 0.1

// faster returns a doubt if tokens come faster than in the row before, of the same test with fewer requests in flight.
func (r *row) faster(before *row) []Finding {
	more, less := r.numbers[concurrency], before.numbers[concurrency]
	now, then := r.numbers[tpot+mean], before.numbers[tpot+mean]
	if r.table == 0 || r.table != before.table || less.high == 0 || more.low <= less.high || now.high == 0 ||
		now.high >= then.low*(1-fasterShare) {
		return nil
	}
	f := now.finding("the row before it, at a lower load", ">=", then.interval, now.middle()/then.low-1)
	f.Doubt = true
	return []Finding{f}
}

// value returns a quantity: as it is printed, or what follows from others.
func (r *row) value(quantity string) (interval, bool) {
	if n, ok := r.numbers[quantity]; ok {
		return n.interval, n.high > 0
	}
	if quantity != osl+mean {
		return interval{}, false
	}
	for _, pair := range [][2]string{{output, requests}, {outputRate, requestRate}} {
		a, ok := r.value(pair[0])
		if b, also := r.value(pair[1]); ok && also && b.low > 0 {
			return a.over(b), true
		}
	}
	return interval{}, false
}

// fixedLengths reports whether all answers have one length: the file says so, or tokens divide by requests, which by
// chance one file in as many as its requests does.
func (r *row) fixedLengths() bool {
	shortest, ok := r.numbers[osl+".min"]
	if longest, also := r.numbers[osl+".max"]; ok && also {
		return shortest.interval == longest.interval
	}
	tokens, n := r.numbers[output], r.numbers[requests]
	return n.low >= 100 && tokens.low == tokens.high && math.Mod(tokens.low, n.low) == 0
}

// off returns by what share a stated number is beyond what is wanted, 0 if both can be true.
func (id *identity) off(stated, want interval) float64 {
	edge := want.middle()
	switch {
	case id.bound != ">=" && stated.low > want.high*(1+id.slack):
		if id.bound == "<=" {
			edge = want.high
		}
	case id.bound != "<=" && stated.high < want.low*(1-id.slack):
		if id.bound == ">=" {
			edge = want.low
		}
	default:
		return 0
	}
	return stated.middle()/edge - 1
}

// Nearest returns the value that would agree, with five digits: "3273.7", or the nearest: "at most 3278.1".
func (f *Finding) Nearest() string {
	edge := map[string]float64{"=": (f.Low + f.High) / 2, "<=": f.High, ">=": f.Low}[f.Bound]
	decimals := max(0, 4-int(math.Floor(math.Log10(max(edge, 1e-4)))))
	return map[string]string{"=": "", "<=": "at most ", ">=": "at least "}[f.Bound] + strconv.FormatFloat(edge, 'f', decimals, 64)
}
