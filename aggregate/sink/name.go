package sink

import (
	"strings"

	"github.com/spate-load/spate/measure"
)

// Name is what a field is called by the conventions of Prometheus and OpenTelemetry: values are in base units,
// percentiles are quantiles of a summary, and error classes are labels. All databases and pages with these conventions
// take their names from here, so that one query finds the same number in each.
type Name struct {
	// Measurement is the row's: "spate_to_date". What is what was measured, without a unit: "ttft". Empty for events.
	Measurement, What string
	// Unit is the base unit, in UCUM as OpenTelemetry has it: "s", "{request}". Empty: none, or not known.
	Unit string
	// Part is the number of a distribution: "count", "mean", "std", "min" or "max". Empty: a value, a quantile, or the
	// whole distribution.
	Part string
	// Quantile is the quantile of a distribution: "0.99". Empty: none.
	Quantile string
	// Class is the class of errors that are counted. Empty: none.
	Class string
	// Scale converts the field's value to the base unit. Distributions have it already.
	Scale float64
	// Counts reports whether the value is a counter's, or one of a class of errors. Grows reports whether it also only
	// grows during a stage.
	Counts, Grows bool
	// Doc says what the value is, in one sentence without a full stop. Empty: the catalogue does not say.
	Doc string

	shared bool // a counter has the name of this distribution
}

// Prometheus returns the name of the metric, by Prometheus' conventions.
func (n Name) Prometheus() string {
	name := n.Measurement
	if n.What != "" {
		name += "_" + n.What
	}
	if n.Unit == seconds {
		name += "_seconds"
	}
	switch {
	case n.Part != "":
		name += "_" + n.Part
	case n.Grows:
		name += "_total"
	}
	return name
}

// OpenTelemetry returns the name of the metric, by OpenTelemetry's conventions. Translated for Prometheus, it is the
// name above. In OpenTelemetry a counter and a distribution must not have the same name.
func (n Name) OpenTelemetry() string {
	name := "spate." + strings.TrimPrefix(n.Measurement, "spate_") + "." + n.What
	if n.shared {
		name += "_per_request"
	}
	return name
}

// Label returns the label that the metric has besides the tags of the row. Its key is empty if there is none.
func (n Name) Label() Tag {
	switch {
	case n.Quantile != "":
		return Tag{"quantile", n.Quantile}
	case n.Class != "":
		return Tag{"class", n.Class}
	}
	return Tag{}
}

// OfDistribution reports whether the field is one number of a distribution.
func (n Name) OfDistribution() bool { return n.Part != "" || n.Quantile != "" }

// seconds is the unit of times.
const seconds = "s"

// quantiles maps the ends of fields to quantiles.
var quantiles = map[string]string{"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p99_9": "0.999"}

// NameOf returns the name of a field of a measurement.
func NameOf(measurement string, field *Field) Name {
	key := field.Key
	if key == eventText {
		return Name{Measurement: measurement, Scale: 1}
	}
	var n Name
	if field.Kind == KindBuckets { // a counter may have the same key
		n = metrics[key]
	} else if class, ok := strings.CutPrefix(key, "errors_"); ok {
		n = Name{Class: class, Unit: counters[measure.Failed.String()].Unit, Counts: true,
			Doc: "Measured requests that failed, by class"}
		key = "errors"
	} else {
		n = counters[key]
	}
	n.Scale = 1
	base, end := split(key)
	if q := quantiles[end]; q != "" {
		end, n.Quantile = "", q
	}
	n.Part = end
	for suffix, scale := range map[string]float64{"_ms": 1e-3, "_s": 1} {
		if cut, ok := strings.CutSuffix(base, suffix); ok {
			base, n.Unit = cut, seconds
			if end != "count" {
				n.Scale = scale
			}
		}
	}
	n.Measurement, n.What = measurement, base
	n.Grows = n.Counts && grows(measurement)
	return n
}

// eventText is the field of an event.
const eventText = "text"

// split separates the end that says which number of a distribution a field has: "ttft_ms", "p99". The end is empty for
// other fields.
func split(key string) (base, end string) {
	for _, end := range []string{"count", "mean", "std", "min", "max", "p50", "p90", "p95", "p99_9", "p99"} {
		if base, ok := strings.CutSuffix(key, "_"+end); ok {
			return base, end
		}
	}
	return key, ""
}

// counters and metrics have what the catalogue says of the names of its rows.
var counters, metrics = func() (counters, metrics map[string]Name) {
	counters, metrics = map[string]Name{}, map[string]Name{}
	for _, c := range measure.Counters() {
		counters[c.String()] = Name{Unit: "{" + strings.TrimSuffix(c.Unit(), "s") + "}", Doc: c.Doc(), Counts: true}
	}
	counters[measure.TextBytes.String()] = Name{Unit: "By", Doc: measure.TextBytes.Doc(), Counts: true}
	for _, m := range measure.Metrics() {
		_, shared := counters[m.Name]
		metrics[m.Name] = Name{Unit: "{token}", Doc: m.Doc, shared: shared} // NameOf has the unit of times
	}
	return counters, metrics
}()

// grows reports whether the counts of a measurement grow during a stage.
func grows(measurement string) bool {
	return measurement == MeasurementToDate || measurement == MeasurementObserverToDate
}

// Number returns the value of a field as a number, not scaled. An event's text is 1, because its series says what
// happened. It returns false if the field has no number.
func (f *Field) Number() (value float64, ok bool) {
	switch f.Kind {
	case KindFloat:
		return f.Float, true
	case KindInt, KindBool:
		return float64(f.Int), true
	}
	return 1, f.Key == eventText
}
