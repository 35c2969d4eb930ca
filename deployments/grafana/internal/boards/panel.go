package main

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

// board makes a dashboard of rows of panels.
func board(uid, title, description, from, refresh string, rows ...[]Panel) Board {
	return Board{
		UID: uid, Title: title, Description: description, Tags: []string{"spate"}, Timezone: "browser",
		SchemaVersion: 39, Version: 1,
		Refresh: refresh, GraphTooltip: 1, Time: TimeRange{From: from, To: "now"},
		Links: []Link{{
			Type: "dashboards", Title: "Spate", Tooltip: "Dashboards of Spate", Icon: "dashboard",
			Tags: []string{"spate"}, IncludeVars: true, KeepTime: true,
		}},
		Templating: variables(false), Annotations: annotations(), Panels: place(rows),
	}
}

// withBaseline lets a person choose a second run, the baseline.
func (b Board) withBaseline() Board {
	b.Templating = variables(true)
	return b
}

// both makes a panel show the baseline too.
func (p Panel) both() Panel {
	for _, target := range p.Targets {
		target.Query = strings.ReplaceAll(target.Query, ofRun, ofBoth)
	}
	return p
}

// width is the width of Grafana's grid.
const width = 24

// place numbers the panels, and divides the rest of each row's width among panels without a width.
func place(rows [][]Panel) (all []Panel) {
	y := 0
	for _, row := range rows {
		height, x := 0, 0
		for _, p := range row {
			p.ID = len(all) + 1
			p.Datasource = p.Targets[0].Datasource
			if p.GridPos.W == 0 {
				p.GridPos.W = width / len(row)
			}
			p.GridPos.X, p.GridPos.Y = x, y
			x += p.GridPos.W
			height = max(height, p.GridPos.H)
			all = append(all, p)
		}
		y += height
	}
	return all
}

// query is a query of a panel with an alias for its lines: $col is the selection's name, $tag_x the value of a tag.
type query struct{ text, alias string }

// letter is Grafana's name for the query at a position.
func letter(i int) string { return string(rune('A' + i)) }

// targets labels queries with the letters that Grafana uses.
func targets(format string, queries []query) (all []Target) {
	for i, q := range queries {
		all = append(all, Target{
			RefID: letter(i), Datasource: source,
			InfluxQL: &InfluxQL{RawQuery: true, Query: q.text, ResultFormat: format, Alias: q.alias},
		})
	}
	return all
}

// lines makes a panel of lines over time, at intervals of a second or more. Values of a stage to date are dashed,
// requested values are grey.
func lines(title, description, unit string, queries ...query) Panel {
	return Panel{
		Type: "timeseries", Title: title, Description: description, GridPos: GridPos{H: 8}, Interval: "1s",
		Targets: targets("time_series", queries),
		FieldConfig: FieldConfig{
			Defaults: FieldDefaults{Unit: unit, Min: new(float64), Custom: map[string]any{
				"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "showPoints": "auto", "pointSize": 4,
				"spanNulls": false,
			}},
			Overrides: []Override{
				override("byRegexp", "/to date/",
					Property{ID: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{8, 6}}}),
				override("byRegexp", "/^asked/", colored("text"), Property{ID: "custom.lineWidth", Value: 2},
					Property{ID: "custom.lineInterpolation", Value: "stepAfter"}),
			},
		},
		Options: map[string]any{
			"legend": map[string]any{"displayMode": "table", "placement": "bottom", "showLegend": true,
				"calcs": []string{"lastNotNull", "max"}},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		},
	}
}

// override sets properties of the values that a matcher chooses.
func override(matcher, options string, properties ...Property) Override {
	return Override{Matcher: Matcher{ID: matcher, Options: options}, Properties: properties}
}

// colored sets a fixed colour.
func colored(name string) Property {
	return Property{ID: "color", Value: Color{Mode: "fixed", Fixed: name}}
}

// every sets the shortest interval.
func (p Panel) every(interval string) Panel {
	p.Interval = interval
	return p
}

// graded colours percentiles of windows and to date alike: the higher, the warmer.
func (p Panel) graded() Panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides,
		override("byRegexp", "/^p50/", colored("green")), override("byRegexp", "/^p90/", colored("yellow")),
		override("byRegexp", "/^p99/", colored("red")), override("byRegexp", "/^max/", colored("purple")))
	return p
}

// legend replaces the legend of a panel of lines.
func (p Panel) legend(legend map[string]any) Panel {
	p.option("legend", legend)
	return p
}

// option sets an option of a panel whose options are a map.
func (p Panel) option(name string, value any) {
	options := p.Options.(map[string]any) //nolint:forcetypeassert // others' options are a type of their own
	options[name] = value
}

// legendList puts a short legend below the panel, for three panels in a row.
func (p Panel) legendList() Panel {
	return p.legend(map[string]any{
		"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull"},
	})
}

// legendRight puts the legend beside a panel that has many lines.
func (p Panel) legendRight() Panel {
	return p.legend(map[string]any{
		"displayMode": "table", "placement": "right", "showLegend": true, "calcs": []string{"lastNotNull", "max"},
	})
}

// busiest puts a table below a panel with a line for each of many agents or endpoints: the highest are first.
func (p Panel) busiest() Panel {
	p.GridPos.H = 10
	return p.legend(map[string]any{
		"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"},
		"sortBy": "Max", "sortDesc": true,
	})
}

// signed allows values below zero.
func (p Panel) signed() Panel {
	p.FieldConfig.Defaults.Min = nil
	return p
}

// logarithmic makes the axis logarithmic, so that a spike does not flatten everything else. Zeros are not drawn.
func (p Panel) logarithmic() Panel {
	p = p.signed() // such an axis has no zero
	p.FieldConfig.Defaults.Custom["scaleDistribution"] = map[string]any{"type": "log", "log": 10}
	return p
}

// bars stacks counts over time. The legend shows their sums.
func bars(title, description, unit string, queries ...query) Panel {
	p := lines(title, description, unit, queries...)
	p.FieldConfig.Defaults.Custom = map[string]any{
		"drawStyle": "bars", "fillOpacity": 70, "lineWidth": 0, "showPoints": "never",
		"stacking": map[string]any{"mode": "normal", "group": "A"},
	}
	return p.legend(map[string]any{
		"displayMode": "table", "placement": "right", "showLegend": true, "calcs": []string{"sum"},
	})
}

// renamed renames lines whose names match a regular expression.
func (p Panel) renamed(regex, pattern string) Panel {
	p.Transformations = append(p.Transformations,
		Transformation{ID: "renameByRegex", Options: map[string]any{"regex": regex, "renamePattern": pattern}})
	return p
}

// column is a column of numbers and their unit.
type column struct{ name, unit string }

// narrow is the width in pixels of a column of numbers.
const narrow = 76

// width returns the width in pixels of the longest word in the column's head, or of a number.
func (c column) width() int {
	if c.unit == share {
		return 62
	}
	longest := 0
	for word := range strings.FieldsSeq(c.name) {
		longest = max(longest, len(word))
	}
	return max(narrow, 16+8*longest)
}

// override puts the unit into the column's head, so that numbers can be compared down the column.
func (c column) override() Override {
	width := Property{ID: "custom.width", Value: c.width()}
	decimals := func(n int) Property { return Property{ID: "decimals", Value: n} }
	switch c.unit {
	case milliseconds, seconds:
		return override("byName", c.name, width, decimals(2),
			Property{ID: "displayName", Value: c.name + " (" + c.unit + ")"})
	case count:
		return override("byName", c.name, width, decimals(0))
	case share:
		return override("byName", c.name, width, decimals(1), Property{ID: "unit", Value: share},
			Property{ID: "mappings", Value: []any{map[string]any{"type": "special", "options": map[string]any{
				"match": "null+nan", "result": map[string]any{"text": "n/a"}}}}})
	case "":
		return override("byName", c.name, width)
	default:
		return override("byName", c.name, width, decimals(2))
	}
}

// table makes a panel of rows. Missing values are n/a.
func table(title, description string, numbers []column, text string) Panel {
	overrides := []Override{verdictColumn("verdict"),
		override("byName", "text", Property{ID: "custom.wrapText", Value: true})}
	for _, tag := range []struct {
		name  string
		width int
	}{{"stage", 55}, {"region", 65}, {"agent", 85}, {"workload", 85}, {"load", 140}, {"run", 290}} {
		overrides = append(overrides, override("byName", tag.name, Property{ID: "custom.width", Value: tag.width}))
	}
	for _, c := range numbers {
		overrides = append(overrides, c.override())
	}
	return Panel{
		Type: "table", Title: title, Description: description, GridPos: GridPos{H: 9},
		Targets: targets("table", []query{{text: text}}),
		FieldConfig: FieldConfig{
			Defaults: FieldDefaults{Unit: "none", NoData: "n/a", Custom: map[string]any{
				"filterable": true, "align": "auto", "minWidth": 60, "wrapHeaderText": true,
			}},
			Overrides: overrides,
		},
		Options: map[string]any{"showHeader": true, "cellHeight": "sm"},
	}
}

// verdictColumn shows the numbers of a column as verdicts.
func verdictColumn(name string) Override {
	return override("byName", name, Property{ID: "mappings", Value: verdicts},
		Property{ID: "custom.width", Value: narrow},
		Property{ID: "custom.cellOptions", Value: map[string]any{"type": "color-text"}},
		Property{ID: "custom.align", Value: "left"})
}

// calculated adds a column made of two others of the same row.
func calculated(name, left, operator, right string) Transformation {
	return Transformation{ID: "calculateField", Options: map[string]any{
		"mode": "binary", "alias": name, "replaceFields": false,
		"binary": map[string]any{"left": left, "operator": operator, "right": right},
	}}
}

// byStage sorts rows by stage, puts tags first, and hides columns without information: the time of an aggregate over a
// whole stage, and the run if there is only one.
func (p Panel) byStage(tags []string) Panel {
	p.Options = map[string]any{"showHeader": true, "cellHeight": "sm",
		"sortBy": []any{map[string]any{"displayName": "stage", "desc": false}}}
	places := map[string]int{}
	for i, tag := range tags {
		places[tag] = i
	}
	return p.organized(places, "Time", "run")
}

// without hides columns.
func (p Panel) without(columns ...string) Panel { return p.organized(map[string]int{}, columns...) }

// organized orders columns and hides others.
func (p Panel) organized(places map[string]int, hide ...string) Panel {
	hidden := map[string]bool{}
	for _, column := range hide {
		hidden[column] = true
	}
	p.Transformations = append(p.Transformations, Transformation{ID: "organize", Options: map[string]any{
		"excludeByName": hidden, "indexByName": places, "renameByName": map[string]string{},
	}})
	return p
}

// high sets the height of a panel.
func (p Panel) high(h int) Panel {
	p.GridPos.H = h
	return p
}

// wide sets the width of a panel.
func (p Panel) wide(w int) Panel {
	p.GridPos.W = w
	return p
}

// byRun separates lines of different runs.
var byRun = []string{"run"}

// named is the alias for lines that need only their selection's name: those of one run, whose stages follow each other.
const named = "$col"

// of is the alias for one line per region or agent.
func of(tag string) string { return fmt.Sprintf("$tag_%s", tag) }

// ofEach is the same for several selections per region or agent.
func ofEach(tag string) string { return fmt.Sprintf("$tag_%s $col", tag) }

// labels makes a name from the labels of columns.
func labels(by []string) string {
	all := make([]string, len(by))
	for i, column := range by {
		all[i] = "${__field.labels." + column + "}"
	}
	return strings.Join(all, " · ")
}
