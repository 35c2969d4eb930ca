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

var update = flag.Bool("update", false, "write the counters and metrics of docs/influxdb.md")

// counterRows returns the table of all counters, and those that may be absent.
func counterRows() string {
	var b strings.Builder
	b.WriteString("| Counter | Meaning |\n|---|---|\n")
	var optional []string
	for i, c := range counterTable {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.name, c.doc)
		if known[Counter(i+1)] != nil {
			optional = append(optional, "`"+c.name+"`")
		}
	}
	return b.String() + "\nAbsent unless the servers reported all of them: " + strings.Join(optional, ", ") + ".\n"
}

// metricNames returns the names of all metrics that databases have, and which parts of a stage have them.
func metricNames() string {
	var b strings.Builder
	var names, breakdowns, regions []string
	for _, m := range metrics {
		if m.Raw {
			continue
		}
		names = append(names, "`"+m.Name+"`")
		if m.Parts&Breakdowns != 0 {
			breakdowns = append(breakdowns, "`"+m.Name+"`")
		} else if m.Parts&RegionWindows != 0 {
			regions = append(regions, "`"+m.Name+"`")
		}
	}
	line := 0
	for _, word := range strings.Fields(strings.Join(names, ", ") + ".") {
		if line > 0 && line+1+len(word) > 120 {
			b.WriteString("\n")
			line = 0
		} else if line > 0 {
			b.WriteString(" ")
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	fmt.Fprintf(&b, "\n\nAgents and endpoints have %s, windows of regions those and %s.\n",
		strings.Join(breakdowns, ", "), strings.Join(regions, ", "))
	return b.String()
}

// The counters and metrics of docs/influxdb.md are the catalogue: go test ./measure -update writes them.
func TestTheCatalogueIsInTheDocs(t *testing.T) {
	docpart.Check(t, docsPage, map[string]string{"counters": counterRows(), "metrics": metricNames()}, *update,
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
