package boards

// curve draws one column against another, a colour for each value of the columns that part them. It takes Grafana 11 or
// later. Each query has the same columns; stages of open loops are no continuation of those of closed ones, so that
// theirs is apart, with a name behind its y.
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

// loops are the stages of a curve.
type loops struct{ where, suffix string }

// closed and open are stages whose load is a concurrency, and all others.
var (
	closed = loops{where: ` AND "load" =~ /^concurrency/`}
	open   = loops{where: ` AND "load" !~ /^concurrency/`, suffix: " · open loop"}
)

// chosenBy names a column of an axis.
func chosenBy(name string) map[string]any {
	return map[string]any{"matcher": Matcher{ID: "byName", Options: name}}
}

// axis is a column of a curve, what it is made of, and its unit.
type axis struct{ column, of, unit string }

// as asks for the column.
func (a axis) as(column string) string {
	if a.of == goodRate {
		return a.of + ` AS "` + column + `"`
	}
	return raw(a.of, column)
}

// override says how the column is drawn; name is its curve's.
func (a axis) override(column, name string) Override {
	o := override("byName", column, Property{ID: "unit", Value: a.unit}, Property{ID: "min", Value: 0},
		Property{ID: "custom.axisLabel", Value: a.column})
	if name != "" {
		o.Properties = append(o.Properties, Property{ID: "displayName", Value: name})
	}
	return o
}
