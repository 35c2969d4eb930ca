package sink

import (
	"math"
	"time"
)

// Measurements that rows belong to.
const (
	// MeasurementWindow has one window of a stage: never average its percentiles.
	MeasurementWindow = "spate_window"
	// MeasurementToDate has a stage up to the end of a window.
	MeasurementToDate = "spate_to_date"
	// MeasurementStage has the result of a stage.
	MeasurementStage = "spate_stage"
	// MeasurementMerged has several windows of a stage that came as one, at the last of them: counts of more than a
	// second.
	MeasurementMerged = "spate_merged_windows"
	// MeasurementObserverWindow, MeasurementObserverToDate, MeasurementObserverMerged and MeasurementObserver are the
	// same of observers, by region.
	MeasurementObserverWindow = "spate_observer_window"
	MeasurementObserverToDate = "spate_observer_to_date"
	MeasurementObserverMerged = "spate_observer_merged_windows"
	MeasurementObserver       = "spate_observer_stage"
	// MeasurementAgent has how agents do while a run goes on.
	MeasurementAgent = "spate_agent"
	// MeasurementServer has what servers told of themselves.
	MeasurementServer = "spate_server"
	// MeasurementEvent has what happened to a run.
	MeasurementEvent = "spate_event"
)

// Row is a point as a database of time series keeps it. Measurement, tags and time name it: a row with the same name
// takes the other's place.
type Row struct {
	// Measurement is the kind of the row.
	Measurement string
	// Tags name the series, in the order of their keys, none empty.
	Tags []Tag
	// Fields are what is known, and nothing else.
	Fields []Field
	// Time is absolute and a function of the run alone.
	Time time.Time
}

// Tag is one part of a series' name.
type Tag struct {
	// Key says which.
	Key string
	// Value is not empty.
	Value string
}

// Kind is the type of a field's value.
type Kind uint8

// Kinds of values. There is no unsigned one: InfluxDB 1 refuses it.
const (
	KindInt Kind = iota + 1
	KindFloat
	KindBool
	KindText
)

// Field is one value of a row.
type Field struct {
	// Key is its name.
	Key string
	// Kind says which of the others holds the value.
	Kind Kind
	// Int holds it for KindInt; 1 means true for KindBool.
	Int int64
	// Float holds it for KindFloat. It is finite.
	Float float64
	// Text holds it for KindText. It is not empty.
	Text string
}

// tag adds a tag unless it is empty. Call it in the order of the keys.
func (r *Row) tag(key, value string) {
	if value != "" {
		r.Tags = append(r.Tags, Tag{key, value})
	}
}

// count adds a count. One beyond 2^63-1 is no count of anything and is left out.
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

// boolean adds a yes or no.
func (r *Row) boolean(key string, value bool) {
	field := Field{Key: key, Kind: KindBool}
	if value {
		field.Int = 1
	}
	r.Fields = append(r.Fields, field)
}

// verdict adds how far the numbers can be believed, if it was judged.
func (r *Row) verdict(number *uint64) {
	if number != nil {
		r.count("verdict", *number)
	}
}

// text adds words unless there are none.
func (r *Row) text(key, value string) {
	if value != "" {
		r.Fields = append(r.Fields, Field{Key: key, Kind: KindText, Text: value})
	}
}
