// Package series turns a measured series of rates, such as a day of production from a dashboard's CSV export, into the
// phases of a load.
package series

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Point is one row of a series.
type Point struct {
	// At is the row's time since the first row.
	At time.Duration
	// Value is its number, at least 0.
	Value float64
}

// Columns names the columns of a CSV file. Empty: the first column for the time, the second for the value.
type Columns struct{ Time, Value string }

// mostRows bounds the rows of a series: a year in minutes.
const mostRows = 600_000

// Read reads a series from CSV with a header. Times are RFC 3339, "2006-01-02 15:04:05", or numbers: seconds, or
// milliseconds from 10^11 on. The error names the line. Read blocks only as r does.
func Read(r io.Reader, columns Columns) ([]Point, error) {
	rows := csv.NewReader(r)
	rows.ReuseRecord, rows.TrimLeadingSpace = true, true
	header, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: want a header, then rows of time and value")
	}
	if err != nil {
		return nil, err
	}
	timeAt, valueAt, err := columns.find(header)
	if err != nil {
		return nil, err
	}
	var points []Point
	var begin float64
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := rows.FieldPos(0)
		seconds, value, err := parse(row[timeAt], row[valueAt])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if len(points) == 0 {
			begin = seconds
		}
		p := Point{time.Duration(math.Round((seconds-begin)*1e6)) * time.Microsecond, value}
		if n := len(points); n > 0 && p.At <= points[n-1].At {
			return nil, fmt.Errorf("line %d: its time %q is not after that of the row before", line, row[timeAt])
		}
		if points = append(points, p); len(points) > mostRows {
			return nil, fmt.Errorf("the series has more than %d rows", mostRows)
		}
	}
	if len(points) < 2 {
		return nil, fmt.Errorf("the series has %d rows: want two or more, of which each lasts to the next", len(points))
	}
	return points, nil
}

// find returns where the columns are.
func (c Columns) find(header []string) (timeAt, valueAt int, err error) {
	if len(header) < 2 {
		return 0, 0, errors.New("the first line has one column: want a header with a time and a value, separated by commas")
	}
	valueAt = 1
	for _, want := range []struct {
		name string
		at   *int
	}{{c.Time, &timeAt}, {c.Value, &valueAt}} {
		if want.name == "" {
			continue
		}
		if *want.at = slices.Index(header, want.name); *want.at < 0 {
			return 0, 0, fmt.Errorf("there is no column %q: the file has %q", want.name, header)
		}
	}
	if timeAt == valueAt {
		return 0, 0, fmt.Errorf("column %q cannot be both the time and the value", header[timeAt])
	}
	return timeAt, valueAt, nil
}

// parse returns a row's time in seconds and its value.
func parse(at, number string) (seconds, value float64, err error) {
	if seconds, err = parseTime(at); err != nil {
		return 0, 0, err
	}
	value, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(value >= 0) || math.IsInf(value, 0) {
		return 0, 0, fmt.Errorf("%q is not a number from 0 on", number)
	}
	return seconds, value, nil
}

// fromMillis is the number from which on times are milliseconds: seconds would be in the year 5138.
const fromMillis = 1e11

// parseTime returns a time in seconds.
func parseTime(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(n) < 1e14 {
		if math.Abs(n) >= fromMillis {
			n /= 1000
		}
		return n, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999", "2006-01-02 15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return float64(t.UnixMicro()) / 1e6, nil
		}
	}
	return 0, fmt.Errorf("%q is not a time: want 2026-11-25T08:00:00Z, 2026-11-25 08:00:00, or seconds", text)
}

// Options say how a series becomes phases.
type Options struct {
	// Every averages the series over spans of this length, in the series' own time. 0: each row is a phase.
	Every time.Duration
	// Speed is how many times faster than in the series time passes. The rates stay as they are.
	Speed float64
	// Scale multiplies the rates.
	Scale float64
	// Linear lets the rate change steadily from row to row, instead of holding each row's rate up to the next.
	Linear bool
}

// MostPhases is the largest number of phases in a load.
const MostPhases = 1024

// Phases returns the phases of a load that follows a series. The last row lasts as long as the one before it.
func Phases(points []Point, o Options) ([]*spatev1.Phase, error) {
	points, end := spans(points, o.Every)
	at := func(i int) time.Duration { // rounded sums, so that errors do not add up
		t := end
		if i < len(points) {
			t = points[i].At
		}
		return time.Duration(math.Round(float64(t)/o.Speed/1e6)) * time.Millisecond
	}
	var phases []*spatev1.Phase
	for i := 0; i < len(points); {
		next := i + 1
		for !o.Linear && next < len(points) && points[next].Value == points[i].Value {
			next++ // equal rates are one phase
		}
		p := &spatev1.Phase{From: points[i].Value * o.Scale, Duration: durationpb.New(at(next) - at(i))}
		if o.Linear && next < len(points) && points[next].Value != points[i].Value {
			p.To = new(points[next].Value * o.Scale)
		}
		if p.GetDuration().AsDuration() <= 0 {
			return nil, fmt.Errorf("at %g times the pace rows are less than a millisecond apart: average them by --every", o.Speed)
		}
		phases = append(phases, p)
		i = next
	}
	if n := len(phases); n > MostPhases {
		whole := points[len(points)-1].At
		return nil, fmt.Errorf("the series gives %d phases, and a load has at most %d: average it, such as by --every %v", n,
			MostPhases, (whole/(MostPhases-1)).Truncate(time.Second)+time.Second)
	}
	return phases, nil
}

// spans averages a series over spans of a length, and returns when it ends.
func spans(points []Point, every time.Duration) (out []Point, end time.Duration) {
	n := len(points)
	end = points[n-1].At + points[n-1].At - points[n-2].At
	if every <= 0 {
		return points, end
	}
	next := func(i int) time.Duration {
		if i+1 < n {
			return points[i+1].At
		}
		return end
	}
	i := 0
	for from := time.Duration(0); from < end; from += every {
		to, sum := min(from+every, end), 0.0
		for ; i < n; i++ {
			sum += points[i].Value * (min(next(i), to) - max(points[i].At, from)).Seconds()
			if next(i) > to {
				break // the rest of the row is in the next span
			}
		}
		out = append(out, Point{from, sum / (to - from).Seconds()})
	}
	return out, end
}
