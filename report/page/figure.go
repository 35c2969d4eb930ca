package page

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/words"
)

// Figure is a chart of the page that stands alone.
type Figure struct {
	// Name is pareto, change, latency (TTFT), tpot, itl, e2e, or Card.
	Name string
	// Workload is the workload whose chart it is. Empty: the first one.
	Workload string
	// CSV writes its points, not a picture.
	CSV bool
	// Width is in CSS pixels, of which an inch has 96.
	Width float64
	// Source ends its caption, such as a hash of what it was made from.
	Source string
}

// Card is the name of the figure that is the whole page: a browser that opens it with #card shows what people see in a
// chat, the answer and its chart in 1200 x 630 pixels.
const Card = "card"

// Write writes the figure of a run, with a caption: what was tested, of how many requests it is, the answer with its
// intervals, and the verdict.
func (f Figure) Write(w io.Writer, in Input) error {
	if f.Name == Card {
		return Write(w, in)
	}
	names := []string(nil)
	for _, l := range workloadsOf(&in) {
		if names = append(names, l.Name); f.Workload != "" && f.Workload != l.Name {
			continue
		}
		drawn := l.named(f.Name, &in)
		if drawn == nil {
			return fmt.Errorf("the run has no chart %q for the workload %s: it needs other measurements, or several targets", f.Name,
				l.Name)
		}
		caption := l.caption(drawn[0], &in) + " " + f.Source
		if f.CSV {
			return drawn[0].csv(w, &l, caption)
		}
		_, err := w.Write(Printable([]byte(drawn[0].alone(f.Width, caption))))
		return err
	}
	return fmt.Errorf("the run has no workload %q: want one of %s", f.Workload, strings.Join(names, ", "))
}

// named returns the chart of a name, nothing if there is none.
func (w *workload) named(name string, in *Input) []figure {
	switch {
	case name == "pareto":
		return w.userFigure(in.Result.Run.Targets)
	case name == "change" && in.Changes != nil:
		return w.changeFigure(in.Changes, in.Result)
	}
	for i, l := range latencies {
		if i == 0 && name == "latency" || strings.EqualFold(name, l.name) {
			return w.latencyFigure(l)
		}
	}
	return nil
}

// caption says what a figure shows, of what and how sure.
func (w *workload) caption(f figure, in *Input) string {
	parts := []string{fmt.Sprintf("%s (%s), workload %s", f.Caption, f.Unit, w.Name)}
	for _, facts := range tested(in.Result) {
		endpoint := func(fact string) bool { return strings.Contains(fact, "://") }
		parts = append(parts, strings.Join(slices.DeleteFunc(facts, endpoint), ", "))
	}
	n, isl, osl := uint64(0), uint64(0), uint64(0)
	for _, r := range w.rows() {
		n += r.Stage.Requests.Completed
		isl += *cmp.Or(r.Stage.InputTokens, new(uint64(0)))
		osl += *cmp.Or(r.Stage.OutputTokens, new(uint64(0)))
	}
	if isl > 0 && osl > 0 && n > 0 {
		parts = append(parts, fmt.Sprintf("Mean ISL:OSL %d:%d", (isl+n/2)/n, (osl+n/2)/n))
	}
	parts = append(parts, "n = "+words.Count(n, "request"))
	parts = append(append(parts, w.Hints...), in.Result.Headline.Lines()...)
	return strings.ReplaceAll(strings.Join(append(parts, verdictOf(in.Result).Mark), ". ")+".", "..", ".")
}

// csv writes the points with the words that people read of them, and the caption as comments.
func (f figure) csv(w io.Writer, of *workload, caption string) error {
	out := csv.NewWriter(w)
	if _, err := io.WriteString(w, "# "+words.Printable(caption)+"\n"); err != nil {
		return err
	}
	rows := [][]string{{"target", cmp.Or(f.X.Label, "x"), f.Unit, "point"}}
	for _, s := range f.Series {
		for _, line := range s.Lines {
			for _, p := range line {
				if p.Title != "" {
					rows = append(rows, []string{of.Legend[s.Number].Name, strconv.FormatFloat(p.X, 'g', -1, 64),
						strconv.FormatFloat(p.Y, 'g', -1, 64), p.Title})
				}
			}
		}
	}
	return out.WriteAll(rows)
}

// colour is a colour of the style sheet, as used and as set.
var colour = regexp.MustCompile(`--(\w+): (#\w+)`)

// alone returns the chart as a file, in the colours of the page's light style, which no program needs variables for.
func (f figure) alone(width float64, caption string) string {
	const letter, lead = 9, 11 // size of the caption and its lines
	width = math.Round(width)  // of which a browser makes one page, not a sliver of a second
	f.Width, f.Height = width, math.Round(max(width*0.62, 180))
	sheet := "text{font:12px Arial,sans-serif;fill:#566273}.note{font-size:11px;fill:#1b2430}.l{fill:none}.h{fill:none;stroke:none}.area{opacity:.18}"
	light, _, _ := strings.Cut(style, "@media")
	for _, c := range colour.FindAllStringSubmatch(light, -1) {
		of := map[string]string{"soft": "axis", "rule": "grid", "invalid": "event"}
		name := cmp.Or(of[c[1]], c[1])
		sheet += fmt.Sprintf(".l.%s{stroke:%s}.f.%s{fill:%s}", name, c[2], name, c[2])
	}
	lines := words.Wrap(caption, int(width/letter*1.8))
	text, height := "", f.Height+lead*float64(len(lines)+1)
	for i, l := range lines {
		text += fmt.Sprintf(`<text x="4" y="%g" style="font-size:%dpx">%s</text>`, f.Height+lead*float64(i+1), letter,
			html.EscapeString(l))
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]gpx" height="%[2]gpx" viewBox="0 0 %[1]g %[2]g">`+
		`<style>%[3]s</style><rect width="100%%" height="100%%" fill="#fff"/>%[4]s%[5]s</svg>`+"\n", width, height, sheet,
		strings.Replace(string(f.SVG()), "<svg ", fmt.Sprintf(`<svg width="%g" height="%g" `, width, f.Height), 1), text)
}
