package otlp

import (
	"cmp"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/api/registry"
)

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
	for _, tag := range tags {
		if tag.Key == "scope" {
			return tag.Value == "all"
		}
	}
	return false
}
