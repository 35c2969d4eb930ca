package sink

import (
	"math"
	"time"

	"github.com/spate-load/spate/histogram"
)

// Measurements of rows.
const (
	// MeasurementWindow has single windows of a stage. Never average their percentiles.
	MeasurementWindow = "spate_window"
	// MeasurementToDate has a stage up to the end of each window.
	MeasurementToDate = "spate_to_date"
	// MeasurementStage has the result of a stage.
	MeasurementStage = "spate_stage"
	// MeasurementMerged has windows of a stage that an agent merged, at the last of them. Their counts are of more than
	// a second.
	MeasurementMerged = "spate_merged_windows"
	// MeasurementAgent has the state of agents during a run.
	MeasurementAgent = "spate_agent"
	// MeasurementServer has server metrics.
	MeasurementServer = "spate_server"
	// MeasurementEvent has the events of a run.
	MeasurementEvent = "spate_event"
)

// Row is a point in the form of a time series database. Measurement, tags and time identify it: a row replaces an
// earlier one with the same identity.
type Row struct {
	// Measurement is the kind of the row.
	Measurement string
	// Tags identify the series. They are sorted by key, and none is empty.
	Tags []Tag
	// Fields are the values that are known, and no others.
	Fields []Field
	// Time is absolute and depends on the run alone.
	Time time.Time
	// Start and End are the time that the row's counts and distributions cover, for databases of cumulative values.
	// Zero: the row has none.
	Start, End time.Time
	// API is what the target of the row speaks, Model its model. They are not part of its identity. Empty: not known.
	API, Model string
}

// Tag is one part of a series' identity.
type Tag struct {
	// Key is the name of the tag.
	Key string
	// Value is not empty.
	Value string
}

// Kind is the type of a field's value.
type Kind uint8

// Kinds of values. There is no unsigned kind because InfluxDB 1 refuses it.
const (
	KindInt Kind = iota + 1
	KindFloat
	KindBool
	KindText
	// KindBuckets is a whole distribution. Databases that cannot store it leave it out.
	KindBuckets
)

// Field is one value of a row.
type Field struct {
	// Key is the name of the field.
	Key string
	// Kind says which of the other fields holds the value.
	Kind Kind
	// Int is the value for KindInt. For KindBool, 1 means true.
	Int int64
	// Float is the value for KindFloat. It is finite.
	Float float64
	// Text is the value for KindText. It is not empty.
	Text string
	// Buckets is the value for KindBuckets. It is in base units, see Name.
	Buckets *histogram.Exponential
}

// tag adds a tag unless it is empty. Call it in the order of the keys.
func (r *Row) tag(key, value string) {
	if value != "" {
		r.Tags = append(r.Tags, Tag{key, value})
	}
}

// count adds a count. It skips a count above 2^63-1, which no real count reaches.
func (r *Row) count(key string, value uint64) {
	if value <= math.MaxInt64 {
		r.Fields = append(r.Fields, Field{Key: key, Kind: KindInt, Int: int64(value)})
	}
}

// float adds a number if it is known.
func (r *Row) float(key string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		r.Fields = append(r.Fields, Field{Key: key, Kind: KindFloat, Float: value})
	}
}

// optional adds a number if it is known.
func (r *Row) optional(key string, value *float64) {
	if value != nil {
		r.float(key, *value)
	}
}

// boolean adds a bool.
func (r *Row) boolean(key string, value bool) {
	field := Field{Key: key, Kind: KindBool}
	if value {
		field.Int = 1
	}
	r.Fields = append(r.Fields, field)
}

// verdict adds the verdict on the numbers, if they were judged.
func (r *Row) verdict(number *uint64) {
	if number != nil {
		r.count("verdict", *number)
	}
}

// text adds a text unless it is empty.
func (r *Row) text(key, value string) {
	if value != "" {
		r.Fields = append(r.Fields, Field{Key: key, Kind: KindText, Text: value})
	}
}
