package page

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
)

// A figure is a file of its own: XML without variables, with what was tested, of how many requests, how sure and from
// what in its caption, at the width that was asked for. As CSV it has a row for each point.
func TestFigure(t *testing.T) {
	in := input(trust.Suspect, stage(0, "t", 1, trust.Valid), stage(1, "t", 2, trust.Suspect))
	for i := range in.Groups[0].Rows {
		in.Groups[0].Rows[i].Stage.Requests.Completed = 40
	}
	in.Result.Stages[0].Model, in.Result.Stages[0].Endpoints = "<m>", []results.EndpointResult{{URL: "http://10.0.0.1"}}
	in.Result.Headline = &results.Headline{Sentences: []string{"t carries 200 ± 3 tok/s."}}
	var b strings.Builder
	draw := func(name, workload string, csv bool) error {
		b.Reset()
		return Figure{Name: name, Workload: workload, CSV: csv, Width: 320, Source: "ledger.db 0102."}.Write(&b, in)
	}
	for _, name := range []string{"pareto", "latency", "tpot", "itl", "e2e"} {
		if err := draw(name, "", false); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if words, ok := token.(xml.CharData); ok {
				text.WriteString(string(words) + " ")
			}
		}
		got := strings.Join(strings.Fields(text.String()), " ")
		for _, want := range []string{"workload w. t, <m>", "n = 80 requests. ring: SUSPECT. t carries 200 ± 3 tok/s. SUSPECT. ledger.db 0102."} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", name, want, got)
			}
		}
		if strings.Contains(b.String(), "var(") || strings.Contains(got, "10.0.0.1") || !strings.Contains(b.String(), ` width="320px"`) {
			t.Errorf("%s: variables, an address or another width: %s", name, b.String())
		}
	}
	if err := draw("pareto", "w", true); err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(strings.NewReader(b.String()))
	r.Comment = '#'
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if last := rows[len(rows)-1]; err != nil || last[0] != "t" || last[1] != "200" || !strings.HasPrefix(last[2], "142.857") {
		t.Errorf("%v, %v", rows, err)
	}
	for name, workload := range map[string]string{"change": "", "none": "", "pareto": "other"} {
		if draw(name, workload, false) == nil {
			t.Errorf("%s of %q is drawn", name, workload)
		}
	}
}
