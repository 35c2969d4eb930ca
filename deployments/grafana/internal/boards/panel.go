package boards

import (
	"fmt"
	"strings"
)

// Units, as Grafana names them.
const (
	milliseconds = "ms"
	perSecondOf  = "suffix: /s"
	requestRate  = "reqps"
	tokenRate    = "suffix: tok/s"
	count        = "short"
	share        = "percentunit"
	seconds      = "s"
)

// board puts panels into rows of a dashboard.
func board(uid, title, description, from, refresh string, rows ...[]Panel) Board {
	return Board{
		UID: uid, Title: title, Description: description, Tags: []string{"spate"}, Timezone: "browser", SchemaVersion: 39, Version: 1,
		Refresh: refresh, GraphTooltip: 1, Time: TimeRange{From: from, To: "now"},
		Links: []Link{{
			Type: "dashboards", Title: "Spate", Tags: []string{"spate"}, AsDropdown: false, IncludeVars: true, KeepTime: true,
		}},
		Templating: variables(), Annotations: annotations(), Panels: place(rows),
	}
}

// width is that of Grafana's grid.
const width = 24

// place numbers the panels and shares out each row's width.
func place(rows [][]Panel) (all []Panel) {
	y := 0
	for _, row := range rows {
		height := 0
		for i, p := range row {
			p.ID, p.Datasource = len(all)+1, source
			w := width / len(row)
			p.GridPos = GridPos{H: p.GridPos.H, W: w, X: i * w, Y: y}
			height = max(height, p.GridPos.H)
			all = append(all, p)
		}
		y += height
	}
	return all
}

// query is a query of a panel and how its lines are called: $col is the selection's name, $tag_x the value of a tag.
type query struct{ text, alias string }

// targets are queries under the letters that Grafana gives them.
func targets(format string, queries []query) (all []Target) {
	for i, q := range queries {
		all = append(all, Target{
			RefID: string(rune('A' + i)), Datasource: source, RawQuery: true, Query: q.text, ResultFormat: format, Alias: q.alias,
		})
	}
	return all
}

// lines is a panel of lines over time, at intervals of a second or more. What is of a stage to date is dashed.
func lines(title, description, unit string, queries ...query) Panel {
	return Panel{
		Type: "timeseries", Title: title, Description: description, GridPos: GridPos{H: 8}, Interval: "1s",
		Targets: targets("time_series", queries),
		FieldConfig: FieldConfig{
			Defaults: FieldDefaults{Unit: unit, Min: new(float64), Custom: map[string]any{
				"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "auto", "pointSize": 4, "spanNulls": false,
			}},
			Overrides: []Override{{
				Matcher:    Matcher{ID: "byRegexp", Options: "/to date/"},
				Properties: []Property{{ID: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{8, 6}}}},
			}},
		},
		Options: map[string]any{
			"legend":  map[string]any{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"}},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		},
	}
}

// bars stacks counts over time.
func bars(title, description, unit string, queries ...query) Panel {
	p := lines(title, description, unit, queries...)
	p.FieldConfig.Defaults.Custom = map[string]any{
		"drawStyle": "bars", "fillOpacity": 70, "lineWidth": 0, "stacking": map[string]any{"mode": "normal", "group": "A"},
	}
	return p
}

// table is a panel of rows. Units are those of columns by their names.
func table(title, description string, units map[string]string, order []string, text string) Panel {
	p := Panel{
		Type: "table", Title: title, Description: description, GridPos: GridPos{H: 9}, Targets: targets("table", []query{{text: text}}),
		FieldConfig: FieldConfig{Defaults: FieldDefaults{NoData: "n/a", Custom: map[string]any{"filterable": true, "align": "auto"}}, Overrides: []Override{}},
		Options:     map[string]any{"showHeader": true, "cellHeight": "sm"},
	}
	for _, column := range order {
		if unit := units[column]; unit != "" {
			p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{
				Matcher:    Matcher{ID: "byName", Options: column},
				Properties: []Property{{ID: "unit", Value: unit}},
			})
		}
	}
	return p
}

// byStage puts rows in the order of stages and hides a column that says nothing: the time of an aggregate over a whole stage.
func (p Panel) byStage() Panel {
	p.Options = map[string]any{"showHeader": true, "cellHeight": "sm", "sortBy": []any{map[string]any{"displayName": "stage", "desc": false}}}
	p.Transformations = append(p.Transformations, Transformation{ID: "organize", Options: map[string]any{"excludeByName": map[string]bool{"Time": true}}})
	return p
}

// curve draws one column against another, a colour for each value of the columns that part them. It takes Grafana 11 or later.
func curve(title, description, text string, x, y axis, by ...string) Panel {
	matcher := func(name string) map[string]any {
		return map[string]any{"matcher": map[string]any{"id": "byName", "options": name}}
	}
	// A curve is called by what parts it from the others, as labels have it; words that all share are left out by Grafana.
	labels := make([]string, len(by))
	for i, column := range by {
		labels[i] = "${__field.labels." + column + "}"
	}
	upright := y.override()
	upright.Properties = append(upright.Properties, Property{ID: "displayName", Value: strings.Join(labels, " · ")})
	return Panel{
		Type: "xychart", Title: title, Description: description, GridPos: GridPos{H: 10}, Targets: targets("table", []query{{text: text}}),
		Transformations: []Transformation{{ID: "partitionByValues", Options: map[string]any{
			"fields": by, "keepFields": false, "naming": map[string]any{"asLabels": true},
		}}},
		FieldConfig: FieldConfig{
			Defaults:  FieldDefaults{Custom: map[string]any{"show": "points+lines", "pointSize": map[string]any{"fixed": 8}, "lineWidth": 1}},
			Overrides: []Override{x.override(), upright},
		},
		Options: map[string]any{
			"mapping": "manual", "series": []any{map[string]any{"x": matcher(x.column), "y": matcher(y.column)}},
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "single", "sort": "none"},
		},
	}
}

// axis is a column of a curve and its unit.
type axis struct{ column, unit string }

func (a axis) override() Override {
	return Override{
		Matcher: Matcher{ID: "byName", Options: a.column},
		Properties: []Property{
			{ID: "unit", Value: a.unit}, {ID: "min", Value: 0}, {ID: "custom.axisLabel", Value: a.column},
		},
	}
}

// high makes a panel as high as it should be.
func (p Panel) high(h int) Panel {
	p.GridPos.H = h
	return p
}

// named says whose a line is where runs and targets are several.
const named = "$col · $tag_target · $tag_run"

// byRun are the tags that tell lines of runs and targets apart.
var byRun = []string{"run", "target"}

// of is a line for each region or agent.
func of(tag string) string { return fmt.Sprintf("$col · $tag_%s · $tag_run", tag) }
