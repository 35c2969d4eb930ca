package plans

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// rateAt returns the rate of a phase at a share of its time, by definition.
func rateAt(p *spatev1.Phase, share float64) float64 {
	from, to := p.GetFrom(), p.GetTo()
	return from + (to-from)*share
}

// TestArea compares with the sum of a hundred thousand slices.
func TestArea(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := rapid.Float64Range(0.1, 1000).Draw(t, "to")
		p := &spatev1.Phase{
			From: rapid.Float64Range(0.1, 1000).Draw(t, "from"), To: &to,
			Duration: durationpb.New(time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "duration"))),
		}
		const slices = 100_000
		want := 0.0
		for i := range slices {
			want += rateAt(p, (float64(i)+0.5)/slices) * p.GetDuration().AsDuration().Seconds() / slices
		}
		if got := area([]*spatev1.Phase{p}); math.Abs(got-want) > 1e-3*want {
			t.Fatalf("area %v, want %v", got, want)
		}
	})
}

// Closed loops that end by requests take as long as the server does; others have a time or none.
func TestTimeOfClosedLoops(t *testing.T) {
	counted := &spatev1.Stage{Load: &spatev1.LoadPoint{Concurrency: 1, Requests: 10}}
	timed := &spatev1.Stage{Load: &spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(time.Minute)}}
	for want, stages := range map[string][]*spatev1.Stage{
		"depends on the server": {counted, counted}, "at least 1m": {counted, timed}, "1m": {timed},
	} {
		if got := TotalOf(stages).TimeWords(InWords); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := TotalOf([]*spatev1.Stage{counted}).TimeWords(InTable); got != "n/a" {
		t.Errorf("in a table: %q", got)
	}
}

func TestSumsSayWhatIsKnown(t *testing.T) {
	exact, about, most, none := Sum{Known: 10}, Sum{Known: 20, About: true}, Sum{Known: 30, AtMost: true},
		Sum{Unknown: true}
	for name, tc := range map[string]struct {
		parts []Sum
		want  string
	}{
		"nothing":            {nil, "0"},
		"all exact":          {[]Sum{exact, exact}, "20"},
		"one about":          {[]Sum{exact, about}, "about 30"},
		"one bound":          {[]Sum{about, most}, "at most 50"},
		"one unknown":        {[]Sum{exact, none, about}, "at least 30"},
		"bound and unknown":  {[]Sum{most, none}, "n/a"},
		"all unknown":        {[]Sum{none}, "n/a"},
		"of several stages":  {[]Sum{exact.times(3)}, "at most 30"},
		"unknown of several": {[]Sum{none.times(3)}, "n/a"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Total{}
			for _, s := range tc.parts {
				o.arrivals.Add(s)
			}
			if got := o.ArrivalWords(InWords); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
