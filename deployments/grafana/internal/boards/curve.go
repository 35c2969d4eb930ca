package main

// curve draws one column against another, with one colour for each value of the columns in by. It needs Grafana 11 or
// later. Each query has the same columns. Stages of open loops do not continue those of closed loops, so they form a
// separate curve, with a suffix after the name of y.
func curve(title, description string, x, y axis, by []string, queries ...loops) Panel {
	p := Panel{
		Type: "xychart", Title: title, Description: description, GridPos: GridPos{H: 10},
		Transformations: []Transformation{{ID: "partitionByValues", Options: map[string]any{
			"fields": by, "keepFields": false, "naming": map[string]any{"asLabels": true},
		}}},
		FieldConfig: FieldConfig{
			Defaults: FieldDefaults{Custom: map[string]any{"show": "points+lines",
				"pointSize": map[string]any{"fixed": 8}, "lineWidth": 1}},
			Overrides: []Override{x.override(x.column, "")},
		},
	}
	var texts []query
	var pairs []any
	for _, q := range queries {
		column := y.column + q.suffix
		texts = append(texts, query{text: rows("spate_stage", ofAll+q.where,
			append(raws(byRuns), x.as(x.column), y.as(column))...)})
		pairs = append(pairs, map[string]any{"x": chosenBy(x.column), "y": chosenBy(column)})
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, y.override(column, labels(by)+q.suffix))
	}
	p.Targets = targets("table", texts)
	p.Options = map[string]any{
		"mapping": "manual", "series": pairs,
		"legend": map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true,
			"calcs": []string{}},
		"tooltip": map[string]any{"mode": "single", "sort": "none"},
	}
	return p
}

// loops selects stages of a curve. suffix marks their y column.
type loops struct{ where, suffix string }

// closed selects stages whose load is a concurrency, open all others.
var (
	closed = loops{where: ` AND "load" =~ /^concurrency/`}
	open   = loops{where: ` AND "load" !~ /^concurrency/`, suffix: " · open loop"}
)

// chosenBy selects a column of an axis by its name.
func chosenBy(name string) map[string]any {
	return map[string]any{"matcher": Matcher{ID: "byName", Options: name}}
}

// axis is a column of a curve, the field that it shows, and its unit.
type axis struct{ column, of, unit string }

// as selects the field under the name of a column.
func (a axis) as(column string) string {
	if a.of == goodRate {
		return a.of + ` AS "` + column + `"`
	}
	return raw(a.of, column)
}

// override says how the column is drawn. name is the name of its curve.
func (a axis) override(column, name string) Override {
	o := override("byName", column, Property{ID: "unit", Value: a.unit}, Property{ID: "min", Value: 0},
		Property{ID: "custom.axisLabel", Value: a.column})
	if name != "" {
		o.Properties = append(o.Properties, Property{ID: "displayName", Value: name})
	}
	return o
}
