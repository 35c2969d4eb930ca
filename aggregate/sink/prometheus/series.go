package prometheus

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/measure"
)

// Numbers of fields in prometheus.WriteRequest, prometheus.TimeSeries, prometheus.Label and prometheus.Sample:
// https://prometheus.io/docs/specs/prw/remote_write_spec/
const (
	requestTimeSeries = 1
	seriesLabels      = 1
	seriesSamples     = 2
	labelName         = 1
	labelValue        = 2
	sampleValue       = 1
	sampleTimestamp   = 2
)

// errNoTime is the error about a row without a time.
var errNoTime = errors.New("prometheus: the point has no time")

// appendRow appends a time series with one sample for each number of a row.
func appendRow(dst []byte, row *sink.Row) ([]byte, error) {
	if row.Time.IsZero() {
		return dst, fmt.Errorf("%w: %s", errNoTime, row.Measurement)
	}
	var series []byte
	for i := range row.Fields {
		value, ok := valueOf(&row.Fields[i])
		if !ok {
			continue
		}
		m := metricOf(row.Measurement, row.Fields[i].Key)
		series = appendLabels(series[:0], m, row.Tags)
		series = protowire.AppendTag(series, seriesSamples, protowire.BytesType)
		series = protowire.AppendBytes(series, sample(value*m.scale, row.Time))
		dst = protowire.AppendTag(dst, requestTimeSeries, protowire.BytesType)
		dst = protowire.AppendBytes(dst, series)
	}
	return dst, nil
}

// valueOf returns the number of a field. A text is not a number, except that of an event, whose series says what
// happened.
func valueOf(f *sink.Field) (value float64, ok bool) {
	switch f.Kind {
	case sink.KindFloat:
		return f.Float, true
	case sink.KindInt, sink.KindBool:
		return float64(f.Int), true
	}
	return 1, f.Key == eventText
}

// eventText is the field of an event.
const eventText = "text"

// sample returns a Sample.
func sample(value float64, at time.Time) []byte {
	b := protowire.AppendTag(nil, sampleValue, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(value))
	b = protowire.AppendTag(b, sampleTimestamp, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(at.UnixMilli()))
}

// appendLabels appends the labels of a series, sorted by name as the API requires.
func appendLabels(dst []byte, m metric, tags []sink.Tag) []byte {
	dst = appendLabel(dst, "__name__", m.name)
	extra := m.label.Key != ""
	for _, tag := range tags {
		if extra && m.label.Key < tag.Key {
			dst, extra = appendLabel(dst, m.label.Key, m.label.Value), false
		}
		dst = appendLabel(dst, tag.Key, tag.Value)
	}
	if extra {
		dst = appendLabel(dst, m.label.Key, m.label.Value)
	}
	return dst
}

// appendLabel appends a Label.
func appendLabel(dst []byte, name, value string) []byte {
	b := protowire.AppendTag(nil, labelName, protowire.BytesType)
	b = protowire.AppendString(b, name)
	b = protowire.AppendTag(b, labelValue, protowire.BytesType)
	b = protowire.AppendString(b, strings.ToValidUTF8(value, "\uFFFD"))
	dst = protowire.AppendTag(dst, seriesLabels, protowire.BytesType)
	return protowire.AppendBytes(dst, b)
}

// metric is what a field is called.
type metric struct {
	name  string
	label sink.Tag // besides the row's tags; empty: none
	scale float64  // factor from the field's unit to the metric's
}

// quantiles maps the ends of fields to quantiles.
var quantiles = map[string]string{"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p99_9": "0.999"}

// metricOf returns what a field of a measurement is called by Prometheus' conventions: times are in seconds,
// percentiles are quantiles of a summary, error classes are labels, and counts that grow end in _total.
func metricOf(measurement, key string) metric {
	if key == eventText {
		return metric{name: measurement, scale: 1}
	}
	m := metric{scale: 1}
	if class, ok := strings.CutPrefix(key, "errors_"); ok {
		key, m.label = "errors", sink.Tag{Key: "class", Value: class}
	}
	base, end := split(key)
	if q := quantiles[end]; q != "" {
		end, m.label = "", sink.Tag{Key: "quantile", Value: q}
	}
	for _, unit := range []string{"_ms", "_s"} {
		if cut, ok := strings.CutSuffix(base, unit); ok {
			base = cut + "_seconds"
			if unit == "_ms" && end != "count" {
				m.scale = 1e-3
			}
			break
		}
	}
	m.name = measurement + "_" + base
	switch {
	case end != "":
		m.name += "_" + end
	case grows(measurement) && (key == "errors" || counters[key]):
		m.name += "_total"
	}
	return m
}

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

// counters has the names of all counters.
var counters = func() map[string]bool {
	names := map[string]bool{}
	for _, c := range measure.Counters() {
		names[c.String()] = true
	}
	return names
}()

// grows reports whether the counts of a measurement grow during a stage.
func grows(measurement string) bool {
	return measurement == sink.MeasurementToDate || measurement == sink.MeasurementObserverToDate
}
