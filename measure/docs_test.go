package measure

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/spate-load/spate/internal/filestest"
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
	filestest.CheckDoc(t, docsPage, map[string]string{"counters": counterRows(), "metrics": metricNames()}, *update,
		"go test ./measure -update")
}

// Each row has a unit and says what it counts or measures, as the comments of the protocol do.
func TestRowsAreExplainedAsInTheProtocol(t *testing.T) {
	for _, c := range counterTable {
		if c.unit == "" || c.doc == "" {
			t.Errorf("%s has no unit or comment: %+v", c.name, c)
		}
	}
	for _, m := range metrics {
		if m.Doc == "" {
			t.Errorf("%s has no comment", m.Name)
		}
	}
}
