package compare

import (
	"cmp"
	"fmt"
	"math"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/words"
)

// Sameness is the answer to whether two stages were sent the same requests.
type Sameness struct {
	// Same: proved by the hashes of the requests' bodies, yes or no. Null: not known, there are no request rows.
	Same *bool `json:"same"`
	// UniqueStarts: each prompt begins with words of its own in each run (cache_busting), so Same is proved by equal
	// definitions and lengths instead.
	UniqueStarts bool `json:"unique_starts"`
	// Requests that both stages sent, by index; null: not known.
	Common *int `json:"common"`
	// Why, in words.
	Why string `json:"why"`
}

// requestID is what tells requests of a stage apart.
type requestID struct {
	index uint64
	turn  uint32
}

// asked is what was asked of a request.
type asked struct {
	body     uint64
	isl, osl uint32
}

// tally counts the requests of two stages.
type tally struct {
	ours, theirs            int
	common, bodies, lengths int // in both, with equal bodies, asking for equal lengths
}

// sameness compares what two stages sent.
func sameness(a, b *stage) (Sameness, error) {
	if b.run.Tool != "" {
		return Sameness{Why: "the file has no requests"}, nil
	}
	if a.result.Seed != b.result.Seed {
		return Sameness{Same: new(false),
			Why: "the stages' seeds differ: the plans differ in seed, workload or load"}, nil
	}
	n, err := count(a, b)
	if err != nil {
		return Sameness{}, err
	}
	if n.ours == 0 || n.theirs == 0 {
		return Sameness{Why: "no request rows: " + definitions(a, b)}, nil
	}
	s := Sameness{Same: new(n.common > 0 && n.bodies == n.common), Common: &n.common}
	switch n.common {
	case 0:
		s.Why = "no request has a counterpart"
	case n.bodies:
		s.Why = fmt.Sprintf("%d requests are in both (%d and %d sent), with equal bodies", n.common, n.ours, n.theirs)
	case n.lengths:
		if bodyCause(a.result, b.result) == otherBody && alike(a, b) {
			s.Same, s.UniqueStarts = new(true), true
			s.Why = fmt.Sprintf("%d requests are in both, equal but for the unique start of each prompt", n.common)
			break
		}
		s.Why = fmt.Sprintf("%d of %d bodies differ (%s), the lengths asked for are equal", n.common-n.bodies, n.common,
			bodyCause(a.result, b.result))
	default:
		s.Why = fmt.Sprintf("%d of %d requests ask for other lengths", n.common-n.lengths, n.common)
	}
	return s, nil
}

// samenessOf compares what the repeats of two sides sent, repeat by repeat. The first that is not the same is the
// answer.
func samenessOf(ours, theirs []stage) (all Sameness, err error) {
	all.Why, all.Common = "no repeat has a counterpart", new(0)
	for i := range ours {
		other := find(theirs, ours[i].place)
		if other == nil {
			continue
		}
		one, err := sameness(&ours[i], other)
		if err != nil || one.Same == nil || !*one.Same {
			return one, err
		}
		common := *all.Common + *one.Common
		all, all.Common = one, &common
	}
	if all.Same == nil {
		all.Common = nil
	}
	return all, nil
}

// count counts the requests of two stages.
func count(a, b *stage) (n tally, err error) {
	sent := make(map[requestID]asked)
	err = a.requests(func(r *Request) error {
		sent[requestID{r.Index, r.Turn}] = asked{r.BodyHash, r.ISLAsked, r.OSLAsked}
		return nil
	})
	if n.ours = len(sent); n.ours == 0 || err != nil {
		return n, err
	}
	return n, b.requests(func(r *Request) error {
		n.theirs++
		if o, is := sent[requestID{r.Index, r.Turn}]; is {
			n.common++
			n.bodies += int(oneIf(o.body == r.BodyHash))
			n.lengths += int(oneIf(o.isl == r.ISLAsked && o.osl == r.OSLAsked))
		}
		return nil
	})
}

// definitions compares the definitions of two stages with equal seeds.
func definitions(a, b *stage) string {
	ours, theirs := a.run.Definitions[a.result.Index], b.run.Definitions[b.result.Index]
	switch {
	case ours == "" || theirs == "":
		return "seed, names and load are equal, the workload's definition is not known"
	case ours == theirs:
		return "the definitions of workload and load are equal"
	}
	return "the definitions of workload or load differ"
}

// alike reports whether two stages differ in nothing but the unique starts of their prompts.
func alike(a, b *stage) bool {
	index := a.result.Index
	return a.run.UniqueStarts[index] && a.run.Definitions[index] != "" &&
		a.run.Definitions[index] == b.run.Definitions[b.result.Index]
}

// otherBody is the cause where neither API nor model is.
const otherBody = "prompts or fields of the body"

// bodyCause returns why bodies of equal requests may differ.
func bodyCause(a, b *results.StageResult) string {
	switch {
	case a.API != b.API:
		return fmt.Sprintf("API %s against %s", a.API, b.API)
	case a.Model != b.Model:
		return fmt.Sprintf("model %q against %q", a.Model, b.Model)
	}
	return otherBody
}

// lengthLimit is the relative difference of mean output lengths from which on a comparison says so first.
const lengthLimit = 0.01

// runWarnings returns what makes numbers of two runs mean different things. byTarget: targets are compared, which may
// be of one run.
func runWarnings(baseline, run *Run, byTarget bool) (warnings []string) {
	a, b := &baseline.Result.Run, &run.Result.Run
	if run.Tool != "" {
		return []string{cmp.Or(tools[run.Tool], "its file does not say how its times are defined")}
	}
	if a.ID != "" && a.ID == b.ID && !byTarget {
		warnings = append(warnings, fmt.Sprintf("this is the baseline's own run, %s", a.ID))
	}
	if a.Definitions != b.Definitions {
		warnings = append(warnings, fmt.Sprintf("the numbers have different definitions (versions %d and %d): "+
			"see %s for what changed", a.Definitions, b.Definitions, words.DocURL("versions.md", "")))
	}
	if compression(a) != compression(b) {
		warnings = append(warnings, fmt.Sprintf("time was compressed differently: %s against %s", compression(a),
			compression(b)))
	}
	return warnings
}

// compression returns in words how a run's time was compressed.
func compression(r *results.RunResult) string {
	if r.TimeCompression == nil {
		return "no simulation"
	}
	return fmt.Sprintf("simulation x%g", *r.TimeCompression)
}

// stageWarnings returns what makes two stages differ in what was asked or answered.
func stageWarnings(a, b *results.StageResult) (warnings []string) {
	if x, y := a.OSL.Seen, b.OSL.Seen; x != nil && y != nil && math.Abs(y.Mean/x.Mean-1) > lengthLimit {
		warnings = append(warnings, fmt.Sprintf("outputs have different lengths: %.1f against %.1f tokens on average",
			x.Mean, y.Mean))
	}
	if x, y := ends(a.Load), ends(b.Load); x != y {
		warnings = append(warnings, fmt.Sprintf("the loads end differently: after %s against %s", x, y))
	}
	return warnings
}

// ends returns in words when a load ends.
func ends(l results.Load) string {
	words := "n/a"
	if l.DurationS != nil {
		words = fmt.Sprintf("%g s", *l.DurationS)
	}
	if l.Requests != nil {
		words = fmt.Sprintf("%d requests", *l.Requests)
		if l.DurationS != nil {
			words += fmt.Sprintf(" or %g s", *l.DurationS)
		}
	}
	return words
}
