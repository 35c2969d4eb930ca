package prometheus

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spate-load/spate/aggregate/sink"
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
		value, ok := row.Fields[i].Number()
		if !ok {
			continue
		}
		name := sink.NameOf(row.Measurement, &row.Fields[i])
		series = appendLabels(series[:0], name, row.Tags)
		series = protowire.AppendTag(series, seriesSamples, protowire.BytesType)
		series = protowire.AppendBytes(series, sample(value*name.Scale, row.Time))
		dst = protowire.AppendTag(dst, requestTimeSeries, protowire.BytesType)
		dst = protowire.AppendBytes(dst, series)
	}
	return dst, nil
}

// sample returns a Sample.
func sample(value float64, at time.Time) []byte {
	b := protowire.AppendTag(nil, sampleValue, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(value))
	b = protowire.AppendTag(b, sampleTimestamp, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(at.UnixMilli()))
}

// appendLabels appends the labels of a series, sorted by name as the API requires.
func appendLabels(dst []byte, name sink.Name, tags []sink.Tag) []byte {
	dst = appendLabel(dst, "__name__", name.Prometheus())
	label := name.Label()
	extra := label.Key != ""
	for _, tag := range tags {
		if extra && label.Key < tag.Key {
			dst, extra = appendLabel(dst, label.Key, label.Value), false
		}
		dst = appendLabel(dst, tag.Key, tag.Value)
	}
	if extra {
		dst = appendLabel(dst, label.Key, label.Value)
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
