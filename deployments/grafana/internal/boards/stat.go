package main

// verdicts are the words for a verdict's number. A higher number means a less trustworthy measurement.
var verdicts = []Mapping{{Type: "value", Options: map[string]Word{
	"0": {Text: "VALID", Color: "green", Index: 0},
	"1": {Text: "SUSPECT", Color: "orange", Index: 1},
	"2": {Text: "INVALID", Color: "red", Index: 2},
}}}

// stat makes a panel of a few values in large figures. fields chooses columns by a regular expression; empty means all
// numbers.
func stat(title, description, unit, fields string, target query) Panel {
	format := "table"
	if target.alias != "" {
		format = "time_series"
	}
	return Panel{
		Type: "stat", Title: title, Description: description, GridPos: GridPos{H: 4}, Interval: "1s",
		Targets: targets(format, []query{target}),
		FieldConfig: FieldConfig{
			Defaults: FieldDefaults{
				Unit: unit, NoData: "n/a", Color: &Color{Mode: "fixed", Fixed: "text"},
				Thresholds: &Thresholds{Mode: "absolute", Steps: []Step{{Color: "text"}}},
			},
			Overrides: []Override{},
		},
		Options: map[string]any{
			"reduceOptions": map[string]any{"values": false, "calcs": []string{"lastNotNull"}, "fields": fields},
			"orientation":   "auto", "textMode": "auto", "colorMode": "value", "graphMode": "none",
			"justifyMode": "auto",
			"wideLayout":  true, "showPercentChange": false,
		},
	}
}

// worded omits the names of a stat's values.
func (p Panel) worded() Panel {
	p.option("textMode", "value")
	return p
}

// judged shows a verdict as its word, on its colour.
func (p Panel) judged() Panel {
	p.FieldConfig.Defaults.Mappings, p.FieldConfig.Defaults.Color = verdicts, &Color{Mode: "thresholds"}
	p.option("colorMode", "background")
	return p.worded()
}

// worst shows the worst verdict of all rows.
func (p Panel) worst() Panel {
	p.option("reduceOptions", map[string]any{"values": false, "calcs": []string{"max"}, "fields": "/^verdict$/"})
	return p
}

// limited makes values red from a limit upwards.
func (p Panel) limited(from float64) Panel {
	p.FieldConfig.Defaults.Color = &Color{Mode: "thresholds"}
	p.FieldConfig.Defaults.Thresholds = &Thresholds{Mode: "absolute",
		Steps: []Step{{Color: "green"}, {Color: "red", Value: &from}}}
	return p
}

// drawn draws a value's history behind it.
func (p Panel) drawn() Panel {
	p.option("graphMode", "area")
	p.FieldConfig.Defaults.Color = &Color{Mode: "fixed", Fixed: "blue"}
	return p
}
