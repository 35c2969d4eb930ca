package series

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// text shows phases as a plan has them.
func text(phases []*spatev1.Phase) string {
	var all []string
	for _, p := range phases {
		s := fmt.Sprintf("%g", p.GetFrom())
		if p.To != nil {
			s += fmt.Sprintf("-%g", p.GetTo())
		}
		all = append(all, s+" "+p.GetDuration().AsDuration().String())
	}
	return strings.Join(all, ", ")
}

// Files as dashboards and scripts write them.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		columns Columns
		want    string
	}{
		"a dashboard's export": {"\"Time\",\"requests/s\"\n2026-11-25 08:00:00,10\n2026-11-25 08:01:00,20.5\n", Columns{}, "[{0s 10} {1m0s 20.5}]"},
		"RFC 3339, by name":    {"pod,rps,ts\na,1,2026-11-25T08:00:00Z\na,2,2026-11-25T09:00:00+00:30\n", Columns{"ts", "rps"}, "[{0s 1} {30m0s 2}]"},
		"seconds":              {"t, v\n100, 0\n100.5, 3\n", Columns{}, "[{0s 0} {500ms 3}]"},
		"milliseconds":         {"t,v\n1764057600000,1\n1764057601000,2\n", Columns{}, "[{0s 1} {1s 2}]"},
		"CRLF":                 {"t,v\r\n1,1\r\n2,2\r\n", Columns{}, "[{0s 1} {1s 2}]"},
	} {
		points, err := Read(strings.NewReader(c.text), c.columns)
		if got := fmt.Sprint(points); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "the file is empty",
		"a\n1\n":                    "the first line has one column",
		"t,v\n1,1\n":                "the series has 1 rows",
		"t,v\n1,1\n1,2\n":           `line 3: its time "1" is not after that of the row before`,
		"t,v\nnoon,1\n":             `line 2: "noon" is not a time`,
		"t,v\n1,12 req/s\n":         `line 2: "12 req/s" is not a number from 0 on`,
		"t,v\n1,-1\n":               `line 2: "-1" is not a number from 0 on`,
		"t,v\n1,NaN\n":              `line 2: "NaN" is not a number from 0 on`,
		"t,v\n1,1\n2,\n":            `line 3: "" is not a number from 0 on`,
		"t,v\n1,1\n2,2,3\n":         "record on line 3: wrong number of fields",
		"t,v\n1e300,1\n":            `line 2: "1e300" is not a time`,
		"t,v\n1,1\n\"2,2\n":         "parse error",
		"t,v\n1,1\n2,1e400\n3,1\n3": `line 3: "1e400" is not a number from 0 on`,
	} {
		if _, err := Read(strings.NewReader(text), Columns{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for columns, want := range map[Columns]string{
		{Value: "x"}: `there is no column "x": the file has ["t" "v"]`,
		{Time: "v"}:  `column "v" cannot be both the time and the value`,
	} {
		if _, err := Read(strings.NewReader("t,v\n1,1\n2,2\n"), columns); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", columns, err, want)
		}
	}
}

func TestPhases(t *testing.T) {
	points := []Point{{0, 10}, {time.Minute, 10}, {2 * time.Minute, 30}, {4 * time.Minute, 0}}
	for want, o := range map[string]Options{
		"10 2m0s, 30 2m0s, 0 2m0s":                              {Speed: 1, Scale: 1},
		"20 2s, 60 2s, 0 2s":                                    {Speed: 60, Scale: 2},
		"10 1m0s, 10-30 1m0s, 30-0 2m0s, 0 2m0s":                {Speed: 1, Scale: 1, Linear: true},
		"10 1m30s, 23.333333333333332 1m30s, 20 1m30s, 0 1m30s": {Speed: 1, Scale: 1, Every: 90 * time.Second},
	} {
		phases, err := Phases(points, o)
		if got := text(phases); err != nil || got != want {
			t.Errorf("%+v: %s, %v, want %s", o, got, err, want)
		}
	}
	if _, err := Phases(points, Options{Speed: 1e6, Scale: 1}); err == nil || !strings.Contains(err.Error(), "--every") {
		t.Error(err)
	}
	var day []Point
	for i := range 1440 {
		day = append(day, Point{time.Duration(i) * time.Minute, float64(i)})
	}
	_, err := Phases(day, Options{Speed: 60, Scale: 1})
	if want := "the series gives 1440 phases, and a load has at most 1024: average it, such as by --every 1m25s"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	phases, err := Phases(day, Options{Speed: 60, Scale: 1, Every: 85 * time.Second})
	if err != nil || len(phases) > MostPhases {
		t.Errorf("%d phases, %v", len(phases), err)
	}
}

// Averaging, speed and equal neighbours change neither the number of requests nor the time.
func TestPhasesKeepTheRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := []Point{{0, 1}}
		for range rapid.IntRange(1, 50).Draw(t, "rows") {
			gap := time.Duration(rapid.IntRange(1, 100).Draw(t, "gap")) * time.Second
			points = append(points, Point{points[len(points)-1].At + gap, float64(rapid.IntRange(0, 5).Draw(t, "value"))})
		}
		last := len(points) - 1
		end := 2*points[last].At - points[last-1].At
		want := points[last].Value * (end - points[last].At).Seconds()
		for i := range last {
			want += points[i].Value * (points[i+1].At - points[i].At).Seconds()
		}
		o := Options{Speed: float64(rapid.IntRange(1, 10).Draw(t, "speed")), Scale: 1,
			Every: time.Duration(rapid.IntRange(0, 200).Draw(t, "every")) * time.Second}
		phases, err := Phases(points, o)
		if err != nil {
			t.Fatal(err)
		}
		requests, whole := 0.0, 0.0
		for _, p := range phases {
			requests += p.GetFrom() * p.GetDuration().AsDuration().Seconds() * o.Speed
			whole += p.GetDuration().AsDuration().Seconds() * o.Speed
		}
		if tolerance := 1e-2 * o.Speed; math.Abs(requests-want) > tolerance*float64(len(phases)+1) ||
			math.Abs(whole-end.Seconds()) > tolerance {
			t.Fatalf("%g requests in %g s, want %g in %g", requests, whole, want, end.Seconds())
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add("Time,v\n2026-11-25 08:00:00,10\n2026-11-25 08:01:00,20.5\n")
	f.Add("t,v\n1,1\n2,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		points, err := Read(strings.NewReader(text), Columns{})
		if err != nil {
			return
		}
		if phases, err := Phases(points, Options{Speed: 60, Scale: 1}); err == nil && len(phases) == 0 {
			t.Error("no phases and no error")
		}
	})
}
