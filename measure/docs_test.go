package measure

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/docpart"
)

// docsPage lists the fields of points.
const docsPage = "../docs/influxdb.md"

var update = flag.Bool("update", false, "write the tables of docs/influxdb.md")

// shownUnits are the units of metrics in results and databases.
var shownUnits = map[Unit]string{Nanoseconds: "ms", Tokens: "tokens", Thousandths: "tokens/frame"}

// counterRows returns the table of all counters.
func counterRows() string {
	var b strings.Builder
	b.WriteString("| Counter | Unit | Meaning |\n|---|---|---|\n")
	for i, c := range counterTable {
		fmt.Fprintf(&b, "| `%s` | %s | %s", c.name, c.unit, c.doc)
		if known[Counter(i+1)] != nil {
			b.WriteString(". Only if the servers reported all of them")
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// metricRows returns the table of all metrics that databases have, and which parts of a stage have them.
func metricRows() string {
	var b strings.Builder
	b.WriteString("| METRIC | Unit | Meaning |\n|---|---|---|\n")
	var breakdowns, regions []string
	for _, m := range metrics {
		if m.Raw {
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name, shownUnits[m.Unit], m.Doc)
		if m.Parts&Breakdowns != 0 {
			breakdowns = append(breakdowns, "`"+m.Name+"`")
		} else if m.Parts&RegionWindows != 0 {
			regions = append(regions, "`"+m.Name+"`")
		}
	}
	fmt.Fprintf(&b, "\nAgents and endpoints have %s, windows of regions those and %s.\n",
		strings.Join(breakdowns, ", "), strings.Join(regions, ", "))
	return b.String()
}

// The tables of docs/influxdb.md are the catalogue: go test ./measure -update writes them.
func TestTheCatalogueIsInTheDocs(t *testing.T) {
	docpart.Check(t, docsPage, map[string]string{"counters": counterRows(), "metrics": metricRows()}, *update,
		"go test ./measure -update")
}

var commented = regexp.MustCompile(`((?: *//.*\n)+) *(?:uint64 )?(\w+) = \d+;`)

// commentsIn returns the comments in a block of metrics.proto, by the name of what they are about.
func commentsIn(t *testing.T, block string) map[string]string {
	t.Helper()
	source, err := os.ReadFile("../proto/spate/v1/metrics.proto")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "\n"+block+" {\n")
	body, _, _ := strings.Cut(rest, "\n}\n")
	comments := map[string]string{}
	for _, match := range commented.FindAllStringSubmatch(body, -1) {
		comments[match[2]] = strings.Join(strings.Fields(strings.ReplaceAll(match[1], "//", "")), " ")
	}
	return comments
}

// Each row has a unit, and says the same as the protocol: its doc is the first sentence of the comment there.
func TestRowsAreExplainedAsInTheProtocol(t *testing.T) {
	for _, c := range counterTable {
		if c.unit == "" || c.doc == "" {
			t.Errorf("%s has no unit or comment: %+v", c.name, c)
		}
	}
	comments := commentsIn(t, "enum Metric")
	for _, m := range metrics {
		if comment := comments[m.ID.String()]; m.Doc == "" || !strings.HasPrefix(comment+" ", m.Doc+". ") {
			t.Errorf("%s is %q, the protocol says %q", m.Name, m.Doc, comment)
		}
	}
}
