package audit

import (
	_ "embed"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/lists"
)

// row is the numbers of one measurement by quantity: times in milliseconds, rates by the second.
type row struct {
	name    string
	line    int
	table   int // the line of the table's header; 0 outside of tables
	numbers map[string]number
}

// number is a value as it was printed.
type number struct {
	interval
	label, text string
	scale       float64 // what the printed value was multiplied with
}

// interval is where a value is, which was rounded to the digits that were printed. No quantity is below 0.
type interval struct{ low, high float64 }

func (a interval) middle() float64           { return (a.low + a.high) / 2 }
func (a interval) plus(b interval) interval  { return interval{a.low + b.low, a.high + b.high} }
func (a interval) times(b interval) interval { return interval{a.low * b.low, a.high * b.high} }
func (a interval) scaled(f float64) interval { return interval{a.low * f, a.high * f} }
func (a interval) over(b interval) interval  { return interval{a.low / b.high, a.high / b.low} }
func (a interval) shift(by float64) interval { return interval{max(a.low+by, 0), max(a.high+by, 0)} }

// read returns where the value of a printed number is. Numbers without decimals are counts, and exact.
func read(text string, scale float64) (interval, bool) {
	text = strings.ToLower(strings.ReplaceAll(text, ",", ""))
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return interval{}, false
	}
	digits, exponent, _ := strings.Cut(text, "e")
	_, decimals, rounded := strings.Cut(digits, ".")
	half := 0.0
	if rounded {
		shift, _ := strconv.Atoi(exponent)
		half = math.Pow10(shift-len(decimals)) / 2
	}
	return interval{max(v-half, 0), v + half}.scaled(scale), true
}

// put keeps a number as the quantity that its label means, unless there is one. seconds: times without a unit are in
// seconds.
func (r *row) put(label, text string, seconds bool) {
	quantity, scale := meaning(label, seconds)
	if _, taken := r.numbers[quantity]; quantity == "" || taken {
		return
	}
	if value, ok := read(text, scale); ok && (value.low > 0 || !strings.Contains(quantity, ".")) { // no latency is 0
		r.numbers[quantity] = number{value, strings.TrimSpace(label), text, scale}
	}
}

// lastsLonger says that rates are over a longer time than the duration: AIPerf's ends with the last answer.
func (r *row) lastsLonger() {
	if d, ok := r.numbers[duration]; ok {
		d.high = math.Inf(1)
		r.numbers[duration] = d
	}
}

//go:embed terms.txt
var termsText string // its head says what it has

// term is a quantity by the words of its labels.
type term struct {
	words    *regexp.Regexp
	quantity string
}

// terms returns those of a section.
func terms(section string) (all []term) {
	_, text, _ := strings.Cut(termsText, "["+section+"]\n")
	text, _, _ = strings.Cut(text, "\n\n")
	for line := range strings.Lines(text) {
		quantity, words, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, term{regexp.MustCompile(`(?:^|\s)(?:` + words + `)(?:\s|$)`), quantity})
	}
	return all
}

// find returns the first quantity whose words are in a label.
func find(all []term, label string) string {
	return lists.Find(all, func(t term) bool { return t.words.MatchString(label) }).quantity
}

var (
	notWord = regexp.MustCompile(`[^a-z0-9]+`)
	// others are quantities that nothing here follows from; whole ones are one number; distributed ones have
	// statistics.
	others, whole, distributed = terms("others"), terms("whole"), terms("distributed")
	statistics, units          = terms("statistics"), terms("units")
)

// meaning returns the quantity that a label names, and what its number is multiplied with. The quantity is empty for
// labels that are not known.
func meaning(label string, seconds bool) (quantity string, scale float64) {
	label = strings.TrimSpace(notWord.ReplaceAllString(strings.ToLower(label), " "))
	if find(others, label) != "" {
		return "", 0
	}
	statistic := find(statistics, label)
	if quantity = find(distributed, label); quantity != "" && statistic != "" && !strings.Contains(label, "total") {
		scale = 1
		if unit := find(units, label); quantity != osl && quantity != isl && (unit == "s" || unit == "" && seconds) {
			scale = 1000
		}
		return quantity + statistic, scale
	}
	if statistic == "" || statistic == mean || strings.Contains(label, "concurrency") {
		return find(whole, label), 1
	}
	return "", 0
}
