package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// noted are the checks whose result noteOf says in its own words.
var noted = []string{"completeness", "errors", "isl", "osl", "never_sent", "broken_sessions"}

// mark returns the verdict of one check as a prefix for its note, or "" if the check passed.
func mark(s results.StageResult, name string) string {
	for _, c := range s.Trust.Checks {
		if c.Name == name && c.Verdict != trust.Valid {
			return string(c.Verdict) + ": "
		}
	}
	return ""
}

// doubts returns the reasons for a stage's verdict that are not in noted, the invalid ones first.
func doubts(s results.StageResult) (notes []string) {
	for _, verdict := range []trust.Verdict{trust.Invalid, trust.Suspect} {
		failed := lists.Where(s.Trust.Checks, func(c trust.Check) bool {
			return c.Verdict == verdict && !slices.Contains(noted, c.Name)
		})
		if len(failed) > 0 {
			notes = append(notes, string(verdict)+": "+strings.Join(trust.Trust{Checks: failed}.Reasons(), ", "))
		}
	}
	return notes
}

// verdicts returns how many stages have which verdict: "12 VALID, 1 SUSPECT". It returns "" if there are no stages.
func verdicts(stages []results.StageResult) string {
	var parts []string
	for _, v := range []trust.Verdict{trust.Valid, trust.Suspect, trust.Invalid} {
		n := lists.Count(stages, func(s results.StageResult) bool { return s.Trust.Verdict == v })
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(parts, ", ")
}

// remedies returns what to do about the checks that failed in any stage, once each, the worst first.
func remedies(stages []results.StageResult) (lines []string) {
	for _, verdict := range []trust.Verdict{trust.Invalid, trust.Suspect} {
		for _, s := range stages {
			for _, c := range s.Trust.Checks {
				if c.Verdict == verdict && c.Remedy != nil {
					lines = words.AppendOnce(lines,
						fmt.Sprintf("%s: %s %s", c.Name, *c.Remedy, words.DocURL("verdicts.md", c.Name)))
				}
			}
		}
	}
	return lines
}

// loadNotes returns what is worth knowing about the stages' loads. Stages whose notes differ at most in numbers are
// named together, with the worst note.
func loadNotes(stages []results.StageResult) (lines []string) {
	type kind struct {
		about []results.StageResult
		notes []string // of each
	}
	var kinds []*kind
	of := map[string]*kind{}
	for _, s := range stages {
		for _, note := range s.Trust.Notes {
			key := number.ReplaceAllString(note, "0")
			if of[key] == nil {
				of[key] = &kind{}
				kinds = append(kinds, of[key])
			}
			of[key].about, of[key].notes = append(of[key].about, s), append(of[key].notes, note)
		}
	}
	for _, k := range kinds {
		line, worst := stageNames(k.about), slices.MaxFunc(k.notes, bySeverity)
		if slices.ContainsFunc(k.notes, func(note string) bool { return note != worst }) {
			line += fmt.Sprintf(", such as %d", k.about[slices.Index(k.notes, worst)].Index+1)
		}
		lines = append(lines, line+": "+worst)
	}
	return lines
}

// number matches a number in a note.
var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?`)

// part matches a percentage or a share such as "3 of 40" in a note.
var part = regexp.MustCompile(`([0-9.]+) (?:%|of ([0-9]+))`)

// bySeverity compares notes of one kind: the worse has the larger part.
func bySeverity(a, b string) int { return cmp.Compare(severity(a), severity(b)) }

// severity returns the first part of a note, 0 if it has none.
func severity(note string) float64 {
	m := append(part.FindStringSubmatch(note), "", "", "")
	value, _ := strconv.ParseFloat(m[1], 64)
	if whole, err := strconv.ParseFloat(m[2], 64); err == nil {
		value /= whole
	}
	return value
}

// smallLateEnd is the median in milliseconds below which late ends of responses, which no number includes, are only in
// report.md.
const smallLateEnd = 10

// notable returns stages without the notes that are only in report.md.
func notable(stages []results.StageResult) []results.StageResult {
	stages = slices.Clone(stages)
	for i := range stages {
		if late := stages[i].LateEnd; late != nil && late.P50 < smallLateEnd {
			stages[i].Trust.Notes = slices.DeleteFunc(slices.Clone(stages[i].Trust.Notes), trust.OfLateEnds)
		}
	}
	return stages
}

// stageNames names stages: one in full, several by their numbers.
func stageNames(stages []results.StageResult) string {
	if len(stages) == 1 {
		return "stage " + stageName(stages[0])
	}
	indices := lists.Each(stages, func(s results.StageResult) uint32 { return s.Index })
	slices.Sort(indices)
	numbers := lists.Each(indices, func(index uint32) string { return fmt.Sprint(index + 1) })
	return "stages " + strings.Join(numbers, ", ")
}

// trustSection returns how many stages can be believed, why others cannot, and what to do about it.
func trustSection(stages []results.StageResult) table.Section {
	judged := verdicts(stages)
	if judged == "" {
		return table.Section{}
	}
	blocks := []table.Block{table.Text("Stages: %s.", judged)}
	var rows [][]string
	for _, s := range stages {
		for _, c := range s.Trust.Failed() {
			rows = append(rows, []string{stageName(s), string(c.Verdict), c.Name, c.Words})
		}
	}
	if len(rows) > 0 {
		blocks = append(blocks, table.Texts([]string{"Stage", "Verdict", "Check", "Reason"}, rows),
			table.Text("What to do:"), table.List(remedies(stages)))
	}
	if notes := loadNotes(stages); len(notes) > 0 {
		blocks = append(blocks, table.Text("Notes on the load:"), table.List(notes))
	}
	return table.NewSection("Trust", blocks...)
}

// shortReason is the length in bytes up to which a reason may appear in a table's notes more than once.
const shortReason = 40

// once keeps track of the notes of a table, so that each long reason appears in full only once. The zero value is ready
// for use.
type once struct{ said []said }

// said is a note that was written in full, and the load of its stage.
type said struct{ load, text string }

// missing joins the notes of what is missing of a stage, shortened.
func (o *once) missing(load string, parts []string) string {
	return strings.Join(lists.Each(parts, func(part string) string { return o.shorten(load, part) }), "; ")
}

// shorten removes the reason from a note ("agent a failed: REASON") if the reason has appeared before. If that was at
// another stage, it says where.
func (o *once) shorten(load, text string) string {
	for at := 0; ; {
		cut := strings.Index(text[at:], ": ")
		if cut < 0 || len(text)-at-cut <= shortReason {
			o.said = append(o.said, said{load, text})
			return text
		}
		at += cut + 2
		if where, found := o.has(text[at:]); found {
			return text[:at-2] + elsewhere(load, where)
		}
	}
}

// has returns the load of the stage whose note contains a reason.
func (o *once) has(reason string) (load string, found bool) {
	for _, s := range o.said {
		if strings.Contains(s.text, reason) {
			return s.load, true
		}
	}
	return "", false
}

func elsewhere(load, where string) string {
	if load == where {
		return ""
	}
	return " (see " + where + ")"
}

// example returns words for the failure of a request, the start of the example message of the most frequent error
// class, or "" if there is none or a note contains it.
func (o *once) example(s results.StageResult) string {
	text := strings.Join(strings.Fields(s.ErrorExamples[s.MostFrequentError()]), " ")
	if all := []rune(text); len(all) > exampleLimit {
		text = string(all[:exampleLimit]) + "…"
	}
	if _, found := o.has(strings.TrimSuffix(text, "…")); found || text == "" {
		return ""
	}
	return "; for example: " + text
}
