package main

import (
	"fmt"
	"slices"
	"strings"
)

// chosenSource is the data source that the variable selects, so that a board works in any Grafana.
const chosenSource = "${datasource}"

// source is the data source of the boards of InfluxDB.
var source = Source{Type: "influxdb", UID: chosenSource}

// sourceVariable lets people choose a data source of a type. Grafana's default is first.
func sourceVariable(of string) Variable {
	return Variable{Name: "datasource", Label: "Data source", Type: "datasource", Query: of, Refresh: 1}
}

// Conditions on the run.
const (
	ofRun      = `"run" =~ /^$run$/`
	ofBaseline = `"run" =~ /^$baseline$/`
	ofBoth     = `"run" =~ /^($baseline|$run)$/`
)

// chosen limits rows to the values of the variables. A variable set to all is ".*", which also matches rows without the
// tag.
const chosen = ofRun + ` AND "target" =~ /^$target$/ AND "stage" =~ /^$stage$/`

// perSecond divides the sum of an interval's counts by its seconds.
const perSecond = ` / ($__interval_ms / 1000)`

// rate selects a count per second: of one window at intervals of a second, or over all windows of a longer interval.
func rate(field, as string) string { return fmt.Sprintf(`sum(%q)%s AS %q`, field, perSecond, as) }

// last selects the last value in an interval: of what is known to date, of a load point, or of single windows. At
// intervals of a second this is the window's own value. At longer intervals windows are skipped, because there is no
// percentile of several windows without their histograms.
func last(field, as string) string { return fmt.Sprintf(`last(%q) AS %q`, field, as) }

// highest selects the highest value in an interval, for fields that are maxima.
func highest(field, as string) string { return fmt.Sprintf(`max(%q) AS %q`, field, as) }

// raw selects a value as it is stored.
func raw(field, as string) string { return fmt.Sprintf(`%q AS %q`, field, as) }

// series queries lines over time, one for each selection and each value of the tags.
func series(from, where string, tags []string, selections ...string) string {
	by := make([]string, len(tags))
	for i, tag := range tags {
		by[i] = `, "` + tag + `"`
	}
	return fmt.Sprintf(`SELECT %s FROM %q WHERE %s AND %s AND $timeFilter GROUP BY time($__interval)%s fill(null)`,
		strings.Join(selections, ", "), from, where, chosen, strings.Join(by, ""))
}

// rows queries rows as they are stored, in the order of time, at any time: a run is chosen by its name.
func rows(from, where string, selections ...string) string {
	return fmt.Sprintf(`SELECT %s FROM %q WHERE %s AND %s`, strings.Join(selections, ", "), from, where, chosen)
}

// latest queries the last value of each field, with one row for each value of the tags.
func latest(from, where string, tags []string, selections ...string) string {
	return rows(from, where, selections...) + ` GROUP BY "` + strings.Join(tags, `", "`) + `"`
}

// present queries how many agents were heard from in each interval, by region. Each agent counts once, in a stage or
// between stages.
func present() string {
	heard := `SELECT last("silent_s") * 0 + 1 AS "one" FROM "spate_agent" WHERE "run" =~ /^$run$/ AND "region" =~ /^$region$/ AND "silent_s" < 3.5 ` +
		`AND $timeFilter GROUP BY time($__interval), "agent", "run", "region" fill(none)`
	return `SELECT sum("one") AS "agents" FROM (` + heard +
		`) WHERE $timeFilter GROUP BY time($__interval), "run", "region" fill(null)`
}

// beats queries what agents report about themselves, which belongs to no stage.
func beats(selections ...string) string {
	return fmt.Sprintf(`SELECT %s FROM "spate_agent" WHERE "run" =~ /^$run$/ AND "region" =~ /^$region$/ AND $timeFilter GROUP BY time($__interval), "agent", "run" fill(null)`,
		strings.Join(selections, ", "))
}

// Conditions on the scope of numbers. Without one of them a sum would count the whole and also its parts.
const (
	ofAll     = `"scope" = 'all'`
	ofRegions = `"scope" = 'region' AND "region" =~ /^$region$/`
	// The first 64 endpoints of a target.
	ofEndpoints = `"scope" = 'endpoint'`
	ofAgents    = `"scope" = 'agent' AND "region" =~ /^$region$/`
)

// variables returns the variables of all dashboards. The newest run is first, so dashboards open with it. A comparison
// also has a baseline, and opens with the run before.
func variables(baseline bool) Templating {
	run := Variable{Name: "run", Label: "Run", Type: "query", Datasource: &source, Refresh: 2,
		Query: `SELECT "run", "text" FROM "spate_event" WHERE "kind" = 'run_began' ORDER BY time DESC LIMIT 500`}
	tag := func(name string) string {
		return fmt.Sprintf(`SHOW TAG VALUES FROM "spate_window" WITH KEY = %q WHERE "run" =~ /^$run$/`, name)
	}
	list := []Variable{
		sourceVariable(source.Type), run,
		choice("target", "Target", tag("target"), alphabetical),
		choice("stage", "Stage", tag("stage"), numerical),
		choice("region", "Region", tag("region"), alphabetical),
	}
	if baseline {
		before := run
		before.Name, before.Label, before.Query = "baseline", "Baseline", run.Query+" OFFSET 1"
		list = slices.Insert(list, 1, before)
	}
	return Templating{List: list}
}

// Grafana's orders of a variable's values.
const (
	alphabetical = 1
	backwards    = 2 // of the alphabet
	numerical    = 3
)

func choice(name, label, query string, order int) Variable {
	return Variable{
		Name: name, Label: label, Type: "query", Datasource: &source, Query: query,
		Multi: true, IncludeAll: true, AllValue: ".*", Refresh: 2, Sort: order,
	}
}

// annotations mark what happened to the chosen runs.
func annotations() Annotations {
	return Annotations{List: []Annotation{
		events("Runs and stages", "run_began|run_ended|stage_began", "blue"),
		events("Agents lost and joined", "agent_lost|agent_joined", "red"),
		events("Warnings", "warning|error_burst", "orange"),
	}}
}

func events(name, kinds, color string) Annotation {
	query := fmt.Sprintf(`SELECT "text", "kind", "agent", "load" FROM "spate_event" WHERE "kind" =~ /^(%s)$/ AND "run" =~ /^$run$/ AND $timeFilter`, kinds)
	return Annotation{
		Name: name, Enable: true, IconColor: color, Datasource: source,
		Target: AnnotationTarget{
			RefID: "Anno", FromAnnotations: true, QueryType: "tags", Query: query, RawQuery: true, Name: name,
			TextColumn: "text", TagsColumn: "kind,agent,load",
		},
	}
}
