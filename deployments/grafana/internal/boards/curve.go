package boards

// curve draws one column against another, a colour for each value of the columns that part them. It takes Grafana 11 or later.
func curve(title, description, text string, x, y axis, by ...string) Panel {
	matcher := func(name string) map[string]any {
		return map[string]any{"matcher": map[string]any{"id": "byName", "options": name}}
	}
	// A curve is called by what parts it from the others, as labels have it.
	upright := y.override()
	upright.Properties = append(upright.Properties, Property{ID: "displayName", Value: labels(by)})
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
	return override("byName", a.column, Property{ID: "unit", Value: a.unit}, Property{ID: "min", Value: 0}, Property{ID: "custom.axisLabel", Value: a.column})
}
