package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// allowed are the functions that a query may use. ofAnything are those that it may use on fields other than counts.
var allowed, ofAnything = []string{"sum", "last", "max", "count"}, []string{"last", "max"}

var (
	call    = regexp.MustCompile(`(\w+)\(("?[^()"]*"?)\)`)
	counted = regexp.MustCompile(`^"?(started|completed|failed|tokens_arrived|frames|unmeasured_frames|connections|coalesced_reads|unstamped_frames|one|/\^errors_/)"?$`)
	most    = regexp.MustCompile(`^"(\w+_max|peak_in_flight|request_throughput|output_token_throughput|verdict)"$`)
	summary = regexp.MustCompile(`_(mean|std|min|max|p\d+(_\d+)?)"`)
	direct  = regexp.MustCompile(`(?:^|, )(?:(?:last|max)\()?"[a-z0-9_]+_(?:mean|std|min|max|p\d+(?:_\d+)?)"\)? AS "[^"]+"(?:,|$)`)
)

// averages returns why a query might show a percentile that Spate did not merge, or "" if it cannot.
func averages(query string) string {
	list, from, _ := strings.Cut(strings.TrimPrefix(query, "SELECT "), " FROM ")
	if inner, nested := strings.CutPrefix(from, "("); nested {
		if why := averages(inner); why != "" {
			return "within it, " + why
		}
	}
	for _, match := range call.FindAllStringSubmatch(list, -1) {
		function, of := strings.ToLower(match[1]), match[2]
		if !slices.Contains(allowed, function) {
			return function + "() is not allowed"
		}
		if function == "max" && !most.MatchString(of) {
			return "max() of what is not a maximum: " + of
		}
		if !slices.Contains(ofAnything, function) && !counted.MatchString(of) {
			return function + "() of what is not a count: " + of
		}
	}
	for one := range strings.SplitSeq(list, ", ") {
		if summary.MatchString(one) && !direct.MatchString(one) {
			return "a percentile is reckoned with: " + one
		}
	}
	return ""
}

func TestWhatAverages(t *testing.T) {
	for query, refused := range map[string]bool{
		`SELECT mean("ttft_ms_p99") AS "p99" FROM "w"`:                          true,
		`SELECT MEAN(ttft_ms_p99) FROM w`:                                       true,
		`SELECT sum("ttft_ms_p99") AS "p99" FROM "w"`:                           true,
		`SELECT percentile("ttft_ms_p99", 50) AS "p99" FROM "w"`:                true,
		`SELECT moving_average(last("ttft_ms_p99"), 5) AS "p99" FROM "w"`:       true,
		`SELECT last("ttft_ms_p99") / 2 AS "half" FROM "w"`:                     true,
		`SELECT ("a_p99" + "b_p99") / 2 AS "half" FROM "w"`:                     true,
		`SELECT max("x") AS "y" FROM (SELECT last("ttft_ms_p99") AS x FROM w)`:  true,
		`SELECT sum("x") AS "y" FROM (SELECT last("ttft_ms_p99") AS x FROM w)`:  true,
		`SELECT sum("one") AS "y" FROM (SELECT mean("e2e_ms_p99") AS o FROM w)`: true,
		`SELECT sum("one") AS "y" FROM (SELECT last("s") * 0 + 1 AS o FROM w)`:  false,
		`SELECT max("ttft_ms_p99") AS "p99" FROM "w"`:                           true,
		`SELECT max("ttft_ms_max") AS "max" FROM "w"`:                           false,
		`SELECT last("ttft_ms_p99") AS "p99" FROM "w"`:                          false,
		`SELECT "ttft_ms_p99_9" AS "p99.9", "e2e_ms_mean" AS "m" FROM "w"`:      false,
		`SELECT sum("completed") / ($__interval_ms / 1000) AS "c" FROM "w"`:     false,
	} {
		if why := averages(query); (why != "") != refused {
			t.Errorf("%s: %q, want refused: %v", query, why, refused)
		}
	}
}

// No panel averages what must not be averaged, neither in a query nor in Grafana's processing of the answer.
func TestNoPanelAverages(t *testing.T) {
	for _, file := range All() {
		for _, panel := range file.Board.Panels {
			for _, target := range panel.Targets {
				if why := averages(target.Query); why != "" {
					t.Errorf("%s, %s: %s\n%s", file.Name, panel.Title, why, target.Query)
				}
			}
		}
		for _, panel := range file.Board.Panels {
			for _, one := range panel.Transformations {
				if one.ID == "calculateField" && !compares(one) {
					t.Errorf("%s, %s: a calculation other than of a change: %v", file.Name, panel.Title, one.Options)
				}
			}
		}
		walk(t, file, func(text string) {
			for _, word := range []string{"mean", "avg", "average", "median", "smooth", "reduce"} {
				if text == word {
					t.Errorf("%s: %q averages in Grafana", file.Name, text)
				}
			}
		})
	}
}

// compares reports whether a calculation in Grafana subtracts or divides two columns of a row, to show a change.
func compares(one Transformation) bool {
	options, _ := one.Options.(map[string]any)
	binary, _ := options["binary"].(map[string]any)
	operator := binary["operator"]
	return options["mode"] == "binary" && (operator == "-" || operator == "/")
}

// walk calls see with every text in a dashboard's JSON.
func walk(t *testing.T, file File, see func(string)) {
	t.Helper()
	data, err := file.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	var visit func(any)
	visit = func(node any) {
		switch node := node.(type) {
		case string:
			see(node)
		case []any:
			for _, child := range node {
				visit(child)
			}
		case map[string]any:
			for _, child := range node {
				visit(child)
			}
		}
	}
	visit(tree)
}

// Each query is limited to the chosen runs, and to one scope: all, regions or agents. So a sum never counts the whole
// and also its parts.
func TestQueriesSayOfWhat(t *testing.T) {
	for _, file := range All() {
		for _, panel := range file.Board.Panels {
			for _, target := range panel.Targets {
				query := target.Query
				if named := func(of string) bool { return strings.Contains(query, of) }; !named(ofRun) &&
					!named(ofBaseline) && !named(ofBoth) {
					t.Errorf("%s, %s: not of the chosen runs: %s", file.Name, panel.Title, query)
				}
				if !strings.Contains(query, `FROM "spate_event"`) && !strings.Contains(query, `FROM "spate_agent"`) &&
					!strings.Contains(query, `FROM "spate_server"`) && !strings.Contains(query, `"scope" = '`) {
					t.Errorf("%s, %s: of no scope: %s", file.Name, panel.Title, query)
				}
				if series := target.ResultFormat == "time_series"; series != strings.Contains(query, "$timeFilter") {
					t.Errorf("%s, %s: the time range and %s do not go together: %s", file.Name, panel.Title,
						target.ResultFormat, query)
				}
			}
		}
	}
}

// selector matches what selects series of a metric.
var selector = regexp.MustCompile(`spate_\w+\{[^}]*\}`)

// Expressions of PromQL name a run and a scope, average nothing, and take quantiles of histograms only.
func TestExpressionsSayOfWhat(t *testing.T) {
	averaging := regexp.MustCompile(`\b(avg|avg_over_time|quantile|quantile_over_time|histogram_avg|stddev|irate)\b *[( ]`)
	for _, file := range Prometheus() {
		for _, panel := range file.Board.Panels {
			for _, target := range panel.Targets {
				if averaging.MatchString(target.Expr) {
					t.Errorf("%s averages: %s", panel.Title, target.Expr)
				}
				all := selector.FindAllString(target.Expr, -1)
				for _, one := range all {
					if !strings.Contains(one, `run="$run"`) || !strings.Contains(one, `scope="`) {
						t.Errorf("%s: of no run or no scope: %s", panel.Title, one)
					}
				}
				if len(all) == 0 || strings.Count(target.Expr, "spate_") != len(all) {
					t.Errorf("%s: %d selectors in %s", panel.Title, len(all), target.Expr)
				}
			}
		}
	}
}

// Titles are unique in a dashboard, and panels do not overlap.
func TestPanelsAreTellable(t *testing.T) {
	uids := map[string]bool{}
	for _, file := range slices.Concat(All(), Prometheus()) {
		titles, taken := map[string]bool{}, map[[2]int]string{}
		if uids[file.Board.UID] {
			t.Errorf("two dashboards have the uid %s", file.Board.UID)
		}
		uids[file.Board.UID] = true
		for _, p := range file.Board.Panels {
			if titles[p.Title] {
				t.Errorf("%s: two panels are called %q", file.Name, p.Title)
			}
			titles[p.Title] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= width {
						t.Fatalf("%s: %q lies over %q", file.Name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

// The folders have exactly the files that this package makes.
func TestFilesAreCurrent(t *testing.T) {
	for name, files := range map[string][]File{"dashboards": All(), "dashboards-prometheus": Prometheus()} {
		mustBeCurrent(t, filepath.Join("..", "..", name), files)
	}
}

func mustBeCurrent(t *testing.T, folder string, files []File) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != len(files) {
		t.Errorf("%d files in %s, want %d: %v", len(entries), folder, len(files), err)
	}
	for _, file := range files {
		want, err := file.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(folder, file.Name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is not current (%v): make generate", file.Name, err)
		}
	}
}
