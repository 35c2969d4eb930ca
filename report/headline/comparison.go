package headline

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Verdicts on a comparison.
const (
	// Better: numbers are better, and none is worse.
	Better = "BETTER"
	// Worse: numbers are worse, and none is better.
	Worse = "WORSE"
	// Mixed: numbers are better and others are worse.
	Mixed = "MIXED"
	// Same: all numbers that were tested are the same within the tolerance.
	Same = "SAME"
	// Unclear: chance may have made what differs, or hidden a difference, or nothing was tested.
	Unclear = "UNCLEAR"
)

// Verdict returns the verdict on a side of a comparison, from the counts of its outcomes.
func Verdict(a *compare.Against) string { return verdict(a.Counts()) }

func verdict(counts map[compare.Outcome]int) string {
	worse, better := counts[compare.Worse], counts[compare.Better]
	switch {
	case worse > 0 && better > 0:
		return Mixed
	case worse > 0:
		return Worse
	case better > 0:
		return Better
	case counts[compare.Same] > 0 && counts[compare.Unclear] == 0:
		return Same
	}
	return Unclear
}

// undecided reports whether a verdict is that no difference is shown.
func undecided(verdict string) bool { return verdict == Same || verdict == Unclear }

// shown returns the start of an answer about sides: that no difference is shown, or else a verdict.
func shown(sides, verdict string) string {
	if undecided(verdict) {
		return fmt.Sprintf("No difference shown (%s): %s", verdict, sides)
	}
	return sides + ": " + verdict
}

// last returns the newest point of a line.
func last(l *spatev1.HistoryLine) *spatev1.HistoryPoint { return l.GetPoints()[len(l.GetPoints())-1] }

// newest returns the newest point of all lines. Nil: there are none.
func newest(lines []*spatev1.HistoryLine) (of *spatev1.HistoryPoint) {
	for _, l := range lines {
		if p := last(l); of == nil || p.GetTime().AsTime().After(of.GetTime().AsTime()) {
			of = p
		}
	}
	return of
}

// Newest returns how the newest run of a history compares with the runs before it. Empty: it was compared with none.
func Newest(lines []*spatev1.HistoryLine) string {
	newest, counts, total, against := newest(lines), map[compare.Outcome]int{}, 0, ""
	for _, l := range lines {
		if p := last(l); p.GetRun() == newest.GetRun() && p.GetAgainst() != "" {
			counts[compare.Outcome(p.GetOutcome())]++
			if total++; total > 1 && p.GetAgainst() != against {
				p = &spatev1.HistoryPoint{Against: "the runs before it"}
			}
			against = p.GetAgainst()
		}
	}
	if total == 0 {
		return ""
	}
	return words.Printable(fmt.Sprintf("%s, of %s %s.", shown(newest.GetRun()+" against "+against, verdict(counts)),
		words.Count(uint64(total), "number"), outcomeWords(counts)))
}

// Week returns what changed in the seven days before the newest run of a history, from one run to the next. Empty:
// nothing was compared in this time.
func Week(lines []*spatev1.HistoryLine) string {
	since, counts, total := newest(lines).GetTime().AsTime().AddDate(0, 0, -7), map[compare.Outcome]int{}, 0
	var changes []string
	for _, l := range lines {
		for _, p := range l.GetPoints() {
			if p.GetAgainst() == "" || p.GetTime().AsTime().Before(since) {
				continue
			}
			total++
			outcome := compare.Outcome(p.GetOutcome())
			if counts[outcome]++; outcome != compare.Worse && outcome != compare.Better {
				continue
			}
			unit := " %"
			if l.GetUnit() == "" {
				unit = " points"
			}
			changes = append(changes, fmt.Sprintf("%s, %s, %s %+.3g%s in %s", l.GetTarget(), l.GetWorkload(), l.GetLoad(), 100**p.Change, unit,
				p.GetRun()))
		}
	}
	if total == 0 {
		return ""
	}
	text := fmt.Sprintf("Since %s: of %s %s", since.UTC().Format("2 January"), words.Count(uint64(total), "comparison"),
		outcomeWords(counts))
	if changes != nil {
		text += ": " + words.Shorten(changes, 3)
	}
	return words.Printable(text + ".")
}

// Compared returns the answer of a side of a comparison: the verdict with its counts, and how the main numbers change;
// then a line with what is doubtful, if anything is.
func Compared(a *compare.Against, baseline string) []string {
	answer := fmt.Sprintf("%s, %s. %s", shown(a.Name+" against "+baseline, Verdict(a)), tally(a), changes(a))
	lines := []string{words.Printable(strings.TrimSuffix(answer, " "))}
	if of := doubts(a, ""); len(of) > 0 {
		lines = append(lines, words.Printable("Doubt: "+strings.Join(of, "; ")+"."))
	}
	return lines
}

// tally says how many numbers of a side have which outcome, and what would show a difference if none is shown.
func tally(a *compare.Against) string {
	counts, total := a.Counts(), len(a.Differences())
	if why, _ := reason(a); total > 0 && counts[compare.Untested] == total {
		return fmt.Sprintf("nothing could be tested (%s): repeat each load three times, or make stages longer", why)
	}
	if total == 0 {
		return "nothing was compared"
	}
	more := map[string]string{Same: "; a lower --tolerance of spate compare may show a difference",
		Unclear: "; more repeats or longer stages may show a difference"}
	return "of " + words.Count(uint64(total), "number") + " " + outcomeWords(counts) + more[verdict(counts)]
}

// mainMetrics are the numbers whose changes are told, each with its title. Those from the fourth on are for answers in
// one piece.
var mainMetrics = [][2]string{{"output tok/s", "output_token_throughput"}, {"mean TTFT", "ttft_ms.mean"},
	{"mean TPOT", "tpot_ms.mean"}, {"req/s", "request_throughput"}, {"mean E2E", "e2e_ms.mean"}}

// changes says how the main numbers change over the loads of a side, with the outcomes of each.
func changes(a *compare.Against) string {
	var parts []string
	for i, of := range mainMetrics {
		if i == 3 && len(parts) > 1 {
			break
		} else if i == 3 { // answers in one piece
			parts = nil
		}
		if m := movedBy(a, of[1]); m != nil {
			means := outcomeWords(m.outcomes)
			if m.from != nil && undecided(Verdict(a)) {
				means += ", " + span(*m.from, *m.to)
			}
			parts = append(parts, fmt.Sprintf("%s %s (%s)", of[0], span(m.low, m.high), means))
		}
	}
	for i := range a.Answers {
		if d := &a.Answers[i].Difference; d.Change != nil {
			parts = append(parts, fmt.Sprintf("%s %s (%s)", strings.ReplaceAll(string(a.Answers[i].Kind), "_", " "),
				signed(*d.Change), d.Outcome))
		}
	}
	if parts == nil {
		return ""
	}
	loads := "At the load of both"
	if n := len(a.Stages); n > 1 {
		loads = fmt.Sprintf("Over %d equal loads", n)
	}
	return loads + ": " + strings.Join(parts, ", ") + "."
}

// moved is how a number changes over the n loads of a side.
type moved struct {
	side            *compare.Against
	n               int
	low, high, mean float64
	from, to        *float64 // the ends of all intervals. Nil: one is not known
	outcomes        map[compare.Outcome]int
	where           string // the load, or how many there are
}

// movedBy returns how a metric changes. Nil: the side has no change of it.
func movedBy(a *compare.Against, metric string) *moved {
	m := &moved{side: a, low: math.Inf(1), high: math.Inf(-1), outcomes: map[compare.Outcome]int{}}
	from, to, known := m.low, m.high, true
	for s := range lists.Refs(a.Stages) {
		d := s.Difference(metric)
		if d == nil || d.Change == nil {
			continue
		}
		m.low, m.high, m.mean = min(m.low, *d.Change), max(m.high, *d.Change), m.mean+*d.Change
		m.outcomes[d.Outcome]++
		m.n++
		if m.where = s.Workload + ", " + s.Load; m.n > 1 {
			m.where = fmt.Sprintf("%d loads", m.n)
		}
		if known = known && d.Low != nil; known {
			from, to = min(from, *d.Low), max(to, *d.High)
		}
	}
	if m.n == 0 {
		return nil
	}
	if m.mean /= float64(m.n); known {
		m.from, m.to = &from, &to
	}
	return m
}

// outcomeWords counts outcomes: "14 better, 2 unclear".
func outcomeWords(counts map[compare.Outcome]int) string {
	switch n := counts[compare.Untested]; {
	case len(counts) == 1 && n == 1:
		return string(compare.Untested)
	case len(counts) == 1 && n > 1:
		return "all " + string(compare.Untested)
	}
	outcomes := []compare.Outcome{compare.Better, compare.Worse, compare.Same, compare.Unclear, compare.Untested}
	some := lists.Where(outcomes, func(o compare.Outcome) bool { return counts[o] > 0 })
	count := func(o compare.Outcome) string { return fmt.Sprintf("%d %s", counts[o], o) }
	return strings.Join(lists.Each(some, count), ", ")
}

// doubts says what of a side was not compared, why most others are not tested or unclear, and what a reader must know
// of the first stage that has marks, other than those with some words.
func doubts(a *compare.Against, without string) (parts []string) {
	if gaps := a.Gaps(); gaps != "" {
		parts = append(parts, gaps)
	}
	const many = 3 // of which one is a share that matters
	counts, total := a.Counts(), len(a.Differences())
	why, n := reason(a)
	if n > 0 && counts[compare.Untested] < total && (many*n >= total || verdict(counts) == Unclear) {
		parts = append(parts, fmt.Sprintf("%s (%d of %s)", why, n, words.Count(uint64(total), "number")))
	}
	parts = append(parts, a.Warnings...)
	if marks := marked(a, without); len(marks) > 0 {
		parts = append(parts, andMore(marks[0], len(marks)))
	}
	return parts
}

// reason returns why most of those numbers of a side are not tested or unclear that are, and how many.
func reason(a *compare.Against) (most string, n int) {
	reasons := map[string]int{}
	for _, d := range a.Differences() {
		if d.Why != "" {
			reasons[d.Why]++
		}
	}
	for why, times := range reasons {
		if times > n || times == n && why < most {
			most, n = why, times
		}
	}
	return most, n
}

// marked returns the first mark of each stage that has some, other than those with some words, unless these are empty.
func marked(a *compare.Against, without string) (marks []string) {
	for s := range lists.Refs(a.Stages) {
		if len(s.Marks) > 0 && (without == "" || !strings.Contains(s.Marks[0], without)) {
			marks = append(marks, s.Load+": "+s.Marks[0])
		}
	}
	return marks
}

// amount says by how much something is more or less, over one or several changes.
func amount(changes []float64) string {
	low, high := slices.Min(changes), slices.Max(changes)
	if low < 0 && high >= 0 && percent(low) != percent(high) {
		return "from " + percent(-low) + " less to " + percent(high) + " more"
	}
	direction := " more"
	if high < 0 {
		low, high, direction = -high, -low, " less"
	}
	if percent(low) == percent(high) {
		return percent(high) + direction
	}
	return strings.TrimSuffix(percent(low), " %") + " to " + percent(high) + direction
}

// span returns the range of changes: "+13.1 to +33.8 %".
func span(low, high float64) string {
	if signed(low) == signed(high) {
		return signed(low)
	}
	return strings.TrimSuffix(signed(low), " %") + " to " + signed(high)
}

// signed formats a change with its sign.
func signed(change float64) string {
	if change < 0 {
		return "-" + percent(-change)
	}
	return "+" + percent(change)
}
