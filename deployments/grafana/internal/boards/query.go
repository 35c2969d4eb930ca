package boards

import (
	"fmt"
	"strings"
)

// source is the provisioned data source.
var source = Source{Type: "influxdb", UID: "spate-influxdb"}

// chosen limits rows to what the variables say. A variable that says all is ".*", which a row without the tag matches
// too.
const chosen = `"run" =~ /^$run$/ AND "target" =~ /^$target$/ AND "stage" =~ /^$stage$/`

// perSecond divides the sum of an interval's counts by its seconds.
const perSecond = ` / ($__interval_ms / 1000)`

// rate is a count per second: of one window at intervals of a second, and over all windows of a longer one.
func rate(field, as string) string { return fmt.Sprintf(`sum(%q)%s AS %q`, field, perSecond, as) }

// last is the last value in an interval: of what is known to date, of a load point, or of single windows. At intervals
// of a second it is the window's own; at longer ones windows are thinned out, as there is no percentile of several
// windows without their histograms.
func last(field, as string) string { return fmt.Sprintf(`last(%q) AS %q`, field, as) }

// highest is the highest value in an interval, of what is the most of something.
func highest(field, as string) string { return fmt.Sprintf(`max(%q) AS %q`, field, as) }

// raw is a value as it is stored.
func raw(field, as string) string { return fmt.Sprintf(`%q AS %q`, field, as) }

// series asks for lines over time, one for each selection and each value of the tags.
func series(from, where string, tags []string, selections ...string) string {
	by := make([]string, len(tags))
	for i, tag := range tags {
		by[i] = `, "` + tag + `"`
	}
	return fmt.Sprintf(`SELECT %s FROM %q WHERE %s AND %s AND $timeFilter GROUP BY time($__interval)%s fill(null)`,
		strings.Join(selections, ", "), from, where, chosen, strings.Join(by, ""))
}

// rows asks for rows as they are stored, in the order of time, whenever they were: a run is chosen by its name.
func rows(from, where string, selections ...string) string {
	return fmt.Sprintf(`SELECT %s FROM %q WHERE %s AND %s`, strings.Join(selections, ", "), from, where, chosen)
}

// latest asks for the last value of each field, a row for each value of the tags.
func latest(from, where string, tags []string, selections ...string) string {
	return rows(from, where, selections...) + ` GROUP BY "` + strings.Join(tags, `", "`) + `"`
}

// present asks for how many agents were heard of in each interval, by region. They count once each, in a stage or
// between stages.
func present() string {
	heard := `SELECT last("silent_s") * 0 + 1 AS "one" FROM "spate_agent" WHERE "run" =~ /^$run$/ AND "region" =~ /^$region$/ AND "silent_s" < 3.5 ` +
		`AND $timeFilter GROUP BY time($__interval), "agent", "run", "region" fill(none)`
	return `SELECT sum("one") AS "agents" FROM (` + heard +
		`) WHERE $timeFilter GROUP BY time($__interval), "run", "region" fill(null)`
}

// beats asks for lines of what agents say of themselves, which is of no stage.
func beats(selections ...string) string {
	return fmt.Sprintf(`SELECT %s FROM "spate_agent" WHERE "run" =~ /^$run$/ AND "region" =~ /^$region$/ AND $timeFilter GROUP BY time($__interval), "agent", "run" fill(null)`,
		strings.Join(selections, ", "))
}

// Whose numbers they are. Without one of these a sum would count the whole beside its parts.
const (
	ofAll     = `"scope" = 'all'`
	ofRegions = `"scope" = 'region' AND "region" =~ /^$region$/`
	// The first 64 endpoints of a target.
	ofEndpoints = `"scope" = 'endpoint'`
	ofAgents    = `"scope" = 'agent' AND "region" =~ /^$region$/`
)

// variables are those of all dashboards. The newest run stands first, which is what a dashboard opens on. Only where
// runs are compared are they several.
func variables(several bool) Templating {
	run := `SELECT "run", "text" FROM "spate_event" WHERE "kind" = 'run_began' ORDER BY time DESC LIMIT 500`
	tag := func(name string) string {
		return fmt.Sprintf(`SHOW TAG VALUES FROM "spate_window" WITH KEY = %q WHERE "run" =~ /^$run$/`, name)
	}
	return Templating{List: []Variable{
		{Name: "run", Label: "Run", Type: "query", Datasource: source, Query: run, Multi: several, Refresh: 2},
		choice("target", "Target", tag("target"), alphabetical),
		choice("stage", "Stage", tag("stage"), numerical),
		choice("region", "Region", tag("region"), alphabetical),
	}}
}

// Grafana's orders of a variable's values.
const (
	alphabetical = 1
	numerical    = 3
)

func choice(name, label, query string, order int) Variable {
	return Variable{
		Name: name, Label: label, Type: "query", Datasource: source, Query: query,
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
