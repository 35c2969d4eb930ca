package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/tables"
)

// Side is one side of a comparison: one or more runs of one setting, or one target of them.
type Side struct {
	// Name for people.
	Name string
	// Runs of the setting. Several runs are repeats of one another.
	Runs []*Run
	// Target to which the side is limited. Empty: all targets.
	Target string
}

// distinct returns an error if two runs of the side are the same one: a copy is not a repeat, and shows no chance.
func (s *Side) distinct() error {
	names := make(map[string]string)
	for _, run := range s.Runs {
		id := run.Result.Run.ID
		if name, twice := names[id]; twice && id != "" {
			return fmt.Errorf("%s and %s are the same run, %s: give each run of a setting once", name, run.Name, id)
		}
		names[id] = run.Name
	}
	return nil
}

// ByTarget divides runs into a side for each of their targets, in the order of their first stages, the plan's baseline
// first. The runs of a side are named after its target too, because all sides have the same runs.
func ByTarget(runs []*Run) []Side {
	var sides []Side
	for _, name := range (&Side{Runs: runs}).targets() {
		named := lists.Each(runs, func(run *Run) *Run {
			one := *run
			one.Name = name + " of " + run.Name
			return &one
		})
		sides = append(sides, Side{Name: name, Runs: named, Target: name})
	}
	return sides
}

// key is what was asked of a stage.
type key struct{ target, workload, load string }

// String returns the key in words.
func (k key) String() string { return words.Joined(", ", k.target, k.workload, k.load) }

// place tells stages with the same key apart.
type place struct {
	run            int
	repeat, number uint32
}

// stage is a stage of a side.
type stage struct {
	run    *Run
	result *results.StageResult
	place  place
}

// group is the stages of a side of which the same was asked, in their order.
type group struct {
	key    key
	stages []stage
}

// groups returns the side's stages by what was asked of them: by target and workload, and there in their order, or that
// of the loads of a sweep, a search or a frontier. rename gives a target another name.
func (s *Side) groups(rename func(string) string) []*group {
	var all []*group
	byKey, grids := make(map[key]*group), make(map[key]int)
	for number, run := range s.Runs {
		for r := range lists.Refs(run.Result.Stages) {
			k := key{rename(r.Target), r.Workload, r.Load.Shared()}
			if s.Target != "" {
				if r.Target != s.Target {
					continue
				}
				k.target = ""
			}
			g := byKey[k]
			if g == nil {
				g = &group{key: k}
				byKey[k] = g
				all = append(all, g)
				if grid := g.grid(); grids[grid] == 0 {
					grids[grid] = len(all)
				}
			}
			g.add(stage{run: run, result: r, place: place{run: number, repeat: r.Load.Repeat}})
		}
	}
	slices.SortStableFunc(all, func(a, b *group) int {
		return cmp.Or(cmp.Compare(grids[a.grid()], grids[b.grid()]),
			cmp.Compare(a.stages[0].result.ProbedLoad(), b.stages[0].result.ProbedLoad()))
	})
	return all
}

// grid returns the key of all loads of the group's target and workload.
func (g *group) grid() key { return key{target: g.key.target, workload: g.key.workload} }

// add adds a stage with a place that no other stage of the group has.
func (g *group) add(s stage) {
	for g.at(s.place) != nil {
		s.place.number++
	}
	g.stages = append(g.stages, s)
}

// at returns the stage at a place, or nil.
func (g *group) at(p place) *stage {
	return lists.First(g.stages, func(s *stage) bool { return s.place == p })
}

// refusal returns why a stage must not be compared, or "".
func (s *stage) refusal() string {
	switch {
	case s.result.Trust.Verdict == trust.Invalid:
		return "INVALID: " + failed(s.result.Trust)
	case !s.result.Complete:
		return "incomplete: " + strings.Join(s.result.Missing, "; ")
	}
	return ""
}

// failed returns the words of the checks behind a verdict.
func failed(t trust.Trust) string {
	behind := lists.Where(t.Checks, func(c trust.Check) bool { return c.Verdict == t.Verdict })
	return strings.Join(trust.Trust{Checks: behind}.Reasons(), "; ")
}

// targets returns the names of a side's targets, the plan's baseline first.
func (s *Side) targets() []string {
	var names []string
	for _, run := range s.Runs {
		for _, name := range tables.TargetNames(run.Result) {
			names = words.AppendOnce(names, name)
		}
	}
	return names
}

// renaming returns the baseline's name for each target of the other side: the only target of both, or the same name.
func renaming(baseline, other *Side) func(string) string {
	ours, theirs := baseline.targets(), other.targets()
	if len(ours) == 1 && len(theirs) == 1 {
		return func(string) string { return ours[0] }
	}
	return func(name string) string { return name }
}

// Run is a run to compare.
type Run struct {
	// Name of the run for people: the path it was read from.
	Name string
	// Tool is the load generator that wrote the file, as package audit calls it. Empty: Spate.
	Tool string
	// Result of the run. Of another tool its stages have only a load and lengths, and Numbers their numbers by their
	// names in results.json.
	Result  *results.Result
	Numbers map[uint32]map[string]*float64
	// Requests calls each with the measured requests of a stage by its index, in any order, and stops at the first
	// error. It may be called several times. Nil: the run has no request rows.
	Requests func(stage uint32, each func(*Request) error) error
	// Definitions has a hash of each stage's workload, load and seed, by the stage's index. Nil: not known.
	Definitions map[uint32]string
	// UniqueStarts has the stages whose prompts begin with words of their own in each run (cache_busting), by index.
	UniqueStarts map[uint32]bool
}

// Request is what a comparison needs of one request, as files of request rows have it. Times are nanoseconds since the
// stage's start. It is valid only during the call that it is passed to.
type Request struct {
	// Index of the request or its session in the stage, and its turn in the session.
	Index uint64 `parquet:"index"`
	Turn  uint32 `parquet:"turn"`
	// Tokens asked for.
	ISLAsked uint32 `parquet:"isl_asked"`
	OSLAsked uint32 `parquet:"osl_asked"`
	// Hash of the request body.
	BodyHash uint64 `parquet:"-"`
	// Start and end.
	StartNs int64 `parquet:"start_ns"`
	EndNs   int64 `parquet:"end_ns"`
	// First and last token. Nil: the request did not get that far, or its answer came as one body.
	FirstTokenNs *int64 `parquet:"-"`
	LastTokenNs  *int64 `parquet:"-"`
	// Output tokens seen.
	OutputTokens uint64 `parquet:"output_tokens,optional"`
	// The request completed: it neither failed nor was cancelled.
	Completed bool `parquet:"-"`
	// The request was cut off by a stop or the end of the drain.
	Cancelled bool `parquet:"cancelled"`
	// Gaps between token frames.
	ITLNs []int64 `parquet:"itl_ns,list"`
}
