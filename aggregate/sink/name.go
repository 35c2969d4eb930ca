package sink

import (
	"strings"

	"github.com/spate-load/spate/measure"
)

// Name is what a field is called by the conventions of Prometheus and OpenTelemetry: values are in base units, and
// error classes are labels. Pages and databases with these conventions take their names from here, so that one query
// finds the same number in each. They have whole distributions, and not the single numbers of these.
type Name struct {
	// Measurement is the row's: "spate_to_date". What is what was measured, without a unit: "ttft".
	Measurement, What string
	// Unit is the base unit, in UCUM as OpenTelemetry has it: "s", "{request}". Empty: none, or not known.
	Unit string
	// OfDistribution reports whether the field is one number of a distribution: its count, its mean, a percentile.
	OfDistribution bool
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
	name := n.Measurement + "_" + n.What
	if n.Unit == seconds {
		name += "_seconds"
	}
	if n.Grows {
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
	if n.Class == "" {
		return Tag{}
	}
	return Tag{"class", n.Class}
}

// seconds is the unit of times.
const seconds = "s"

// NameOf returns the name of a field of a measurement.
func NameOf(measurement string, field *Field) Name {
	key := field.Key
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
	base := key
	for _, end := range []string{"count", "mean", "std", "min", "max", "p50", "p90", "p95", "p99_9", "p99"} {
		if cut, ok := strings.CutSuffix(base, "_"+end); ok {
			base, n.OfDistribution = cut, true
		}
	}
	for suffix, scale := range map[string]float64{"_ms": 1e-3, "_s": 1} {
		if cut, ok := strings.CutSuffix(base, suffix); ok {
			base, n.Unit, n.Scale = cut, seconds, scale
		}
	}
	n.Measurement, n.What = measurement, base
	n.Grows = n.Counts && grows(measurement)
	return n
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
func grows(measurement string) bool { return measurement == MeasurementToDate }

// Number returns the value of a field as a number, not scaled. It returns false if the field has no number.
func (f *Field) Number() (value float64, ok bool) {
	switch f.Kind {
	case KindFloat:
		return f.Float, true
	case KindInt, KindBool:
		return float64(f.Int), true
	}
	return 0, false
}
