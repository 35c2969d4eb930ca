package influx

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxdb-client-go/v2/api/write"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)

func TestLine(t *testing.T) {
	text := func(s string) []sink.Field { return []sink.Field{{Key: "k", Kind: sink.KindText, Text: s}} }
	float := func(x float64) []sink.Field { return []sink.Field{{Key: "k", Kind: sink.KindFloat, Float: x}} }
	tests := []struct {
		name string
		row  sink.Row
		want string
	}{
		{"int", sink.Row{Fields: []sink.Field{{Key: "k", Kind: sink.KindInt, Int: math.MaxInt64}}},
			"m k=9223372036854775807i"},
		{"float", sink.Row{Fields: float(0.1)}, "m k=0.1"},
		{"large float", sink.Row{Fields: float(1e300)}, "m k=1e+300"},
		{"true", sink.Row{Fields: []sink.Field{{Key: "k", Kind: sink.KindBool, Int: 1}}}, "m k=true"},
		{"text", sink.Row{Fields: text(`say "a\b", c=d`)}, `m k="say \"a\\b\", c=d"`},
		{"line break in text", sink.Row{Fields: text("a\r\nb\x00c")}, `m k="a  b c"`},
		{"tag", sink.Row{Tags: []sink.Tag{{Key: "t", Value: "a,b c=d"}}, Fields: float(1)}, `m,t=a\,b\ c\=d k=1`},
		{"backslash in a tag", sink.Row{Tags: []sink.Tag{{Key: "t", Value: `a\`}}, Fields: float(1)}, `m,t=a/ k=1`},
		{"line break in a tag", sink.Row{Tags: []sink.Tag{{Key: "t", Value: "a\nb"}}, Fields: float(1)},
			`m,t=a\ b k=1`},
		{"broken UTF-8", sink.Row{Fields: text("a\xffb")}, "m k=\"a\uFFFDb\""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.row.Measurement, test.row.Time = "m", noon
			got, err := appendLine(nil, &test.row)
			if want := test.want + " 1767355200000000005\n"; err != nil || string(got) != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestLineOfNothing(t *testing.T) {
	got, err := appendLine(nil, &sink.Row{Measurement: "m", Time: noon})
	if err != nil || len(got) > 0 {
		t.Errorf("a row without fields gave %q, %v", got, err)
	}
	_, err = appendLine(nil, &sink.Row{Measurement: "m", Fields: []sink.Field{{Key: "k", Kind: sink.KindInt}}})
	if !errors.Is(err, errNoTime) {
		t.Errorf("a row without a time gave error %v", err)
	}
}

func TestLongWordsAreCutBetweenRunes(t *testing.T) {
	got := clean("a" + strings.Repeat("ö", longest))
	if len(got) != longest-1 || !strings.HasSuffix(got, "ö") {
		t.Errorf("%d bytes, end %q", len(got), got[len(got)-4:])
	}
}

// Lines are as the client library's own encoder writes them, for names that need no cleaning.
func TestLineIsAsTheClientWritesIt(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9 ,=ö:()]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		row := sink.Row{
			Measurement: "m", Time: time.Unix(0, rapid.Int64Range(1, math.MaxInt64).Draw(t, "time")).UTC(),
			Tags: []sink.Tag{{Key: "a", Value: name.Draw(t, "tag")}, {Key: "b", Value: name.Draw(t, "tag")}},
			Fields: []sink.Field{
				{Key: "f", Kind: sink.KindFloat, Float: rapid.Float64().Draw(t, "float")},
				{Key: "i", Kind: sink.KindInt, Int: rapid.Int64().Draw(t, "int")},
				{Key: "t", Kind: sink.KindText, Text: rapid.StringMatching(`[a-z "\\,=]{1,12}`).Draw(t, "text")},
			},
		}
		point := write.NewPointWithMeasurement("m").SetTime(row.Time).
			AddTag("a", row.Tags[0].Value).AddTag("b", row.Tags[1].Value).
			AddField("f", row.Fields[0].Float).AddField("i", row.Fields[1].Int).AddField("t", row.Fields[2].Text)
		got, err := appendLine(nil, &row)
		if want := write.PointToLineProtocol(point, time.Nanosecond); err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	})
}

// For any texts, a row is one line and its number reads back.
func FuzzLine(f *testing.F) {
	f.Add("eu-west", `a "quoted" \ word`, 0.1)
	f.Add("\\\n", "\x00\xff", math.SmallestNonzeroFloat64)
	f.Fuzz(func(t *testing.T, tag, text string, number float64) {
		row := sink.Row{Measurement: "m", Time: noon, Tags: []sink.Tag{{Key: "t", Value: tag}}, Fields: []sink.Field{
			{Key: "n", Kind: sink.KindFloat, Float: number}, {Key: "t", Kind: sink.KindText, Text: text},
		}}
		line, err := appendLine(nil, &row)
		if err != nil || bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte("\n")) {
			t.Fatalf("line %q, %v", line, err)
		}
		fields := line[bytes.Index(line, []byte(" n="))+3:]
		digits, _, _ := bytes.Cut(fields, []byte(","))
		back, err := strconv.ParseFloat(string(digits), 64)
		if err != nil || back != number && !math.IsNaN(number) {
			t.Fatalf("number %v was written as %q", number, digits)
		}
	})
}

func BenchmarkAppendLine(b *testing.B) {
	row := sinktest.Window(3).Rows()[0]
	line, err := appendLine(nil, &row)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		line, err = appendLine(line[:0], &row)
	}
	if err != nil {
		b.Fatal(err)
	}
}
