package main

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/aggregate/sink"
)

// anyPrometheus is the data source that a person chooses: most have one already.
var anyPrometheus = Source{Type: "prometheus", UID: chosenSource}

// Conditions on the scope of series of the chosen run.
const (
	whole    = `scope="all",run="$run",target=~"$target",stage=~"$stage"`
	regional = `scope="region",region=~"$region",run="$run",target=~"$target",stage=~"$stage"`
	endpoint = `scope="endpoint",run="$run",target=~"$target",stage=~"$stage"`
)

// promTags identify a stage.
const promTags = "stage, target, workload, load"

// name returns the name that the catalogue gives to a field.
func name(measurement, key string, kind sink.Kind) string {
	return sink.NameOf(measurement, &sink.Field{Key: key, Kind: kind}).Prometheus()
}

// counter returns the selector of a counter of the stage so far.
func counter(key, scope string) string {
	return fmt.Sprintf("%s{%s}", name(sink.MeasurementToDate, key, sink.KindInt), scope)
}

// values returns the selector of a native histogram of the stage so far.
func values(metric, scope string) string {
	return fmt.Sprintf("%s{%s}", name(sink.MeasurementToDate, metric, sink.KindBuckets), scope)
}

// perSecondBy returns how fast counters grow, summed by labels; no labels: in all.
func perSecondBy(labels, selector string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[$__rate_interval]))", labels, selector)
}

// perSecondTotal returns how fast a counter grows.
func perSecondTotal(key string) string {
	return fmt.Sprintf("sum(rate(%s[$__rate_interval]))", counter(key, whole))
}

// recent returns a quantile of what was measured in the last interval, by labels. Histograms are added up before the
// quantile is taken.
func recent(metric, quantile, labels, scope string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s[$__rate_interval])))", quantile, labels,
		values(metric, scope))
}

// toDate returns a quantile of the stage in progress, from its start.
func toDate(metric, quantile string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (run, stage) (%s)) and on (run, stage) %s", quantile,
		values(metric, whole), inProgress)
}

// inProgress selects stages in which requests start or end.
var inProgress = fmt.Sprintf("(sum by (run, stage) (rate(%s[$__rate_interval])) + sum by (run, stage) (rate(%s[$__rate_interval])) > 0)",
	counter("started", whole), counter("completed", whole))

// lastOf returns the last value of each stage, by its labels: the series of a stage end soon after it.
func lastOf(selector string) string {
	return fmt.Sprintf("max by (%s) (last_over_time(%s[$__range]))", promTags, selector)
}

// gauge returns the selector of a number of a stage that has ended.
func gauge(key string) string {
	return fmt.Sprintf("%s{%s}", name(sink.MeasurementStage, key, sink.KindFloat), whole)
}

// final returns a quantile in milliseconds of each stage as a whole, as it is in results.json.
func final(metric, quantile string) string {
	return fmt.Sprintf("1000 * histogram_quantile(%s, sum by (%s) (last_over_time(%s[$__range])))", quantile, promTags,
		values(metric, whole))
}

// judgement returns the verdict of each stage, by what is known so far until it ends.
func judgement() string {
	return lastOf(gauge("verdict")) + " or " +
		lastOf(fmt.Sprintf("%s{%s}", name(sink.MeasurementToDate, "verdict", sink.KindInt), whole))
}

// expr is an expression of PromQL with the name of its lines.
type expr struct{ text, legend string }

// asked replaces the queries of a panel by expressions over time.
func (p Panel) asked(all ...expr) Panel { return p.queried("time_series", all) }

// askedNow replaces the queries of a panel by expressions at the end of the time range, as tables.
func (p Panel) askedNow(all ...expr) Panel { return p.queried("table", all) }

func (p Panel) queried(format string, all []expr) Panel {
	p.Targets, p.Interval = nil, ""
	for i, e := range all {
		now := format == "table"
		p.Targets = append(p.Targets, Target{RefID: letter(i), Datasource: anyPrometheus,
			PromQL: &PromQL{Expr: e.text, LegendFormat: e.legend, Instant: now, Range: !now, Format: format}})
	}
	return p
}

// merged makes one table of the answers: a row for each stage, a column for each expression, named by its legend.
func (p Panel) merged() Panel {
	renamed, hidden := map[string]string{}, map[string]bool{"Time": true}
	places := map[string]int{}
	for tag := range strings.SplitSeq(promTags, ", ") {
		places[tag] = len(places)
	}
	for _, t := range p.Targets {
		places["Value #"+t.RefID], renamed["Value #"+t.RefID] = len(places), t.LegendFormat
	}
	p.Transformations = append(p.Transformations, Transformation{ID: "merge", Options: map[string]any{}},
		Transformation{ID: "organize", Options: map[string]any{
			"excludeByName": hidden, "indexByName": places, "renameByName": renamed,
		}})
	return p
}
