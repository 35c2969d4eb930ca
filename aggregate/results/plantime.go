package results

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// InPlanTime converts what a simulation that compressed time measured to the rates and times of its plan, so that
// people can put it beside what was measured on a real deployment. It returns r itself if its times are the plan's.
// Verdicts keep what was measured, since they are about this machine, as do thresholds.
func InPlanTime(r *Result) *Result {
	k := r.Run.TimeCompression
	if k == nil || *k == 1 {
		return r
	}
	data, err := json.Marshal(r)
	if err != nil {
		return r // results.json could not be written either
	}
	out := new(Result)
	if err := json.Unmarshal(data, out); err != nil {
		return r
	}
	c := converter{k: *k}
	c.convert(reflect.ValueOf(out.Stages), "", false)
	c.convert(reflect.ValueOf(out.Run.Series), "", false)
	c.convert(reflect.ValueOf(out.Repeats), "", false)
	c.convert(reflect.ValueOf(out.Run.Missing), "missing", false)
	out.Run.TimeCompression = nil
	return out
}

// converter multiplies times by k, and divides rates by it.
type converter struct{ k float64 }

// convert converts what a field has, by the field's name in results.json. rate says that loads beside it are rates.
func (c *converter) convert(v reflect.Value, name string, rate bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.convert(v.Elem(), name, rate)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.convert(v.Index(i), name, rate)
		}
	case reflect.Struct:
		c.fields(v, name, rate || isRate(v.Interface()))
	case reflect.Float64:
		v.SetFloat(v.Float() * c.factor(name, rate))
	case reflect.String:
		if name == "words" || name == "missing" || name == "objectives" || name == "reason" || name == "sentence" {
			v.SetString(WordsInPlanTime(v.String(), c.k))
		}
	}
}

// fields converts a struct: the values of a distribution of times are times, whatever their names.
func (c *converter) fields(v reflect.Value, name string, rate bool) {
	for i := range v.NumField() {
		field, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if isTime(name) {
			field = name
		}
		if of, is := v.Interface().(RepeatSpread); is {
			field, _, _ = strings.Cut(strings.TrimPrefix(of.Metric, "goodput."), ".")
		}
		if field != "trust" && v.Field(i).CanSet() {
			c.convert(v.Field(i), field, rate)
		}
	}
}

// isRate reports whether the loads in a struct are requests per second.
func isRate(v any) bool {
	switch v := v.(type) {
	case Load:
		return v.Rate != nil
	case SeriesResult:
		return v.Unit == "rate"
	}
	return false
}

// isTime reports whether a field has milliseconds or seconds.
func isTime(name string) bool { return strings.HasSuffix(name, "_ms") || strings.HasSuffix(name, "_s") }

// factor returns what a number is multiplied by.
func (c *converter) factor(name string, rate bool) float64 {
	switch name {
	case "from", "to", "kept", "broke", "load":
		if !rate {
			return 1
		}
		return 1 / c.k
	case "rate", "replay_speed", "goodput", "throughput_margin":
		return 1 / c.k
	}
	switch {
	case strings.HasSuffix(name, "throughput"):
		return 1 / c.k
	case isTime(name):
		return c.k
	}
	return 1
}

// quantity is numbers with a unit of time, or of something per second, seconds of a stage, or the speed of a replay.
var (
	quantity = regexp.MustCompile(`(replay x|seconds? )?(\d+(?:\.\d+)?(?: to \d+(?:\.\d+)?)*) ?(ms|s|req/s|tok/s|good req/s)?\b`)
	decimal  = regexp.MustCompile(`\d+(?:\.\d+)?`)
)

// WordsInPlanTime converts the quantities in words from a simulation that compressed time k times, to four significant
// digits.
func WordsInPlanTime(text string, k float64) string {
	if k <= 1 {
		return text
	}
	return quantity.ReplaceAllStringFunc(text, func(found string) string {
		parts := quantity.FindStringSubmatch(found)
		factor := 1 / k
		switch unit := parts[3]; {
		case unit == "" && parts[1] == "":
			return found
		case unit == "ms", unit == "s", strings.HasPrefix(parts[1], "second"):
			factor = k
		}
		return decimal.ReplaceAllStringFunc(found, func(n string) string {
			v, _ := strconv.ParseFloat(n, 64)
			v, _ = strconv.ParseFloat(fmt.Sprintf("%.4g", v*factor), 64)
			return strconv.FormatFloat(v, 'f', -1, 64)
		})
	})
}

// ofSeries begins what a search, a sweep or a frontier tells: "search of TARGET, WORKLOAD: 8 req/s was too high".
var ofSeries = regexp.MustCompile(`^(search|sweep|frontier|choice) of `)

// EventInPlanTime returns an event of a run that compresses time k times, with the loads, rates and latencies of its
// plan. How long a stage takes stays as it is, since people wait that long, as do other notices and the doubts of
// verdicts.
func EventInPlanTime(e *spatev1.RunEvent, k float64) *spatev1.RunEvent {
	if k <= 1 {
		return e
	}
	e = proto.CloneOf(e)
	if n := e.GetNotice(); ofSeries.MatchString(n.GetText()) {
		name, says, _ := strings.Cut(n.GetText(), ": ")
		n.Text = name + ": " + WordsInPlanTime(says, k)
	}
	if s := e.GetStageStarted(); s != nil {
		s.Load = WordsInPlanTime(s.GetLoad(), k)
	}
	if p := e.GetStageProgress(); p != nil {
		scale(1/k, &p.FramesPerSecond, p.OutputTokensPerSecond, p.CompletedPerSecond)
		for _, q := range []*spatev1.Quantiles{p.GetTtft(), p.GetTpot(), p.GetE2E()} {
			if q != nil {
				scale(k, &q.P50Ms, &q.P99Ms)
			}
		}
	}
	w := e.GetStageWindow()
	for _, part := range slices.Concat([]*spatev1.WindowPart{w.GetWhole()}, w.GetRegions(), w.GetAgents()) {
		if part == nil {
			continue
		}
		scale(1/k, &part.FramesPerSecond, part.OutputTokensPerSecond)
		for _, d := range part.GetDistributions() {
			if isTime(d.GetMetric()) {
				scale(k, &d.Mean, &d.P50, &d.P90, &d.P99, &d.Max)
			}
		}
	}
	return e
}

// scale multiplies numbers by a factor. Those that are nil are not known.
func scale(factor float64, numbers ...*float64) {
	for _, n := range numbers {
		if n != nil {
			*n *= factor
		}
	}
}
