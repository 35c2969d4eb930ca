package otlp

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/histogram"
)

// resourceMetrics is the number of the field of ExportMetricsServiceRequest. It is repeated, so that requests can be
// concatenated.
const resourceMetrics = 1

// errNoTime is the error about a row without a time.
var errNoTime = errors.New("otlp: the point has no time")

// stores reports whether a field is sent: whole distributions and no parts of them, and of windows only the peak in
// flight, because counts of windows are differences of those to date.
func stores(measurement string, field *sink.Field) bool {
	switch measurement {
	case sink.MeasurementWindow:
		return field.Key == "peak_in_flight"
	case sink.MeasurementMerged, sink.MeasurementEvent:
		return false
	}
	if field.Kind == sink.KindBuckets {
		return true
	}
	_, ok := field.Number()
	return ok && !sink.NameOf(measurement, field).OfDistribution
}

// appendRow appends the metrics of a row.
func appendRow(dst []byte, row *sink.Row) ([]byte, error) {
	if row.Time.IsZero() {
		return dst, fmt.Errorf("%w: %s", errNoTime, row.Measurement)
	}
	all := &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: "spate"}}
	tags := attributes(row.Tags)
	for i := range row.Fields {
		if m := metricOf(row, &row.Fields[i], tags); m != nil {
			all.Metrics = append(all.Metrics, m)
		}
		if m := conventional(row, &row.Fields[i], tags); m != nil {
			all.Metrics = append(all.Metrics, m)
		}
	}
	if len(all.Metrics) == 0 {
		return dst, nil
	}
	body, err := proto.Marshal(&metrics.ResourceMetrics{
		Resource:     &resource.Resource{Attributes: attributes([]sink.Tag{{Key: "service.name", Value: "spate"}})},
		ScopeMetrics: []*metrics.ScopeMetrics{all},
	})
	if err != nil {
		return dst, fmt.Errorf("otlp: %w", err)
	}
	dst = protowire.AppendTag(dst, resourceMetrics, protowire.BytesType)
	return protowire.AppendBytes(dst, body), nil
}

// cumulative says that a value is about all of the time since its start.
const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// metricOf returns the metric of a field, nil if it is not sent.
func metricOf(row *sink.Row, field *sink.Field, tags []*common.KeyValue) *metrics.Metric {
	if !stores(row.Measurement, field) {
		return nil
	}
	name := sink.NameOf(row.Measurement, field)
	m := &metrics.Metric{Name: name.OpenTelemetry(), Unit: name.Unit, Description: name.Doc}
	switch {
	case field.Kind == sink.KindBuckets:
		m.Data = distribution(row, field, tags)
	case name.Counts && !row.Start.IsZero():
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{
			AggregationTemporality: cumulative, IsMonotonic: true, DataPoints: []*metrics.NumberDataPoint{{
				Attributes: with(tags, name.Label()), StartTimeUnixNano: nanos(row.Start), TimeUnixNano: nanos(row.End),
				Value: &metrics.NumberDataPoint_AsInt{AsInt: field.Int},
			}},
		}}
	default:
		value, _ := field.Number()
		at := row.End
		if at.IsZero() {
			at = row.Time
		}
		m.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: []*metrics.NumberDataPoint{{
			Attributes: with(tags, name.Label()), TimeUnixNano: nanos(at),
			Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value * name.Scale},
		}}}}
	}
	return m
}

// distribution returns the data of a field that is a distribution. Prometheus and OpenTelemetry have the same buckets.
func distribution(row *sink.Row, field *sink.Field, tags []*common.KeyValue) *metrics.Metric_ExponentialHistogram {
	e := field.Buckets
	point := &metrics.ExponentialHistogramDataPoint{
		Attributes: tags, StartTimeUnixNano: nanos(row.Start), TimeUnixNano: nanos(row.End),
		Count: e.Count, Sum: &e.Sum, Min: &e.Min, Max: &e.Max, Scale: histogram.Schema, ZeroCount: e.Zero,
		ZeroThreshold: 0,
		Positive:      &metrics.ExponentialHistogramDataPoint_Buckets{Offset: e.First, BucketCounts: e.Buckets},
	}
	return &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{
		AggregationTemporality: cumulative, DataPoints: []*metrics.ExponentialHistogramDataPoint{point},
	}}
}

// with returns attributes with another one, unless that is empty.
func with(tags []*common.KeyValue, tag sink.Tag) []*common.KeyValue {
	if tag.Key == "" {
		return tags
	}
	return append(tags[:len(tags):len(tags)], attributes([]sink.Tag{tag})...)
}

func attributes(tags []sink.Tag) []*common.KeyValue {
	all := make([]*common.KeyValue, 0, len(tags))
	for _, tag := range tags {
		text := strings.ToValidUTF8(tag.Value, "\uFFFD")
		all = append(all, &common.KeyValue{Key: tag.Key,
			Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}})
	}
	return all
}

// nanos returns a time as OTLP has it. The zero time is 0, which means that it is not known.
func nanos(at time.Time) uint64 {
	if at.IsZero() {
		return 0
	}
	return uint64(min(max(at.UnixNano(), 0), math.MaxInt64))
}

// Convention is a metric of OpenTelemetry's conventions for generative AI, which a metric of Spate is too.
type Convention struct {
	// Metric is Spate's, by its name in results.json. Name is that of the conventions.
	Metric, Name string
	// TokenType is the attribute gen_ai.token.type. Empty: there is none.
	TokenType string
}

// Conventions are the conventional metrics that are sent of stages as a whole, besides Spate's own. They are those of
// Spate's that are defined alike: a chunk is what vLLM's client takes the time of.
// https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-metrics.md
var Conventions = []Convention{
	{Metric: "vllm_ttft_ms", Name: "gen_ai.client.operation.time_to_first_chunk"},
	{Metric: "vllm_e2e_ms", Name: "gen_ai.client.operation.duration"},
	{Metric: "isl_tokens", Name: "gen_ai.client.token.usage", TokenType: "input"},
	{Metric: "osl_tokens", Name: "gen_ai.client.token.usage", TokenType: "output"},
}

// conventional returns a field of a stage so far as a metric of the conventions, nil if it is none.
func conventional(row *sink.Row, field *sink.Field, tags []*common.KeyValue) *metrics.Metric {
	if row.Measurement != sink.MeasurementToDate || field.Buckets == nil || !ofStage(row.Tags) {
		return nil
	}
	for _, c := range Conventions {
		if c.Metric != field.Key {
			continue
		}
		provider, operation := "openai", "chat"
		if a, known := registry.Find(row.API); known {
			provider, operation = cmp.Or(a.Provider, provider), cmp.Or(a.Operation, operation)
		}
		for _, tag := range []sink.Tag{{Key: "gen_ai.operation.name", Value: operation},
			{Key: "gen_ai.provider.name", Value: provider}, {Key: "gen_ai.request.model", Value: row.Model},
			{Key: "gen_ai.token.type", Value: c.TokenType}} {
			if tag.Value != "" {
				tags = with(tags, tag)
			}
		}
		return &metrics.Metric{Name: c.Name, Unit: sink.NameOf(row.Measurement, field).Unit,
			Data: distribution(row, field, tags)}
	}
	return nil
}

// ofStage reports whether a row is about a stage as a whole, so that nothing counts twice.
func ofStage(tags []sink.Tag) bool {
	return slices.ContainsFunc(tags, func(tag sink.Tag) bool { return tag.Key == "scope" && tag.Value == "all" })
}
