package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNumberHasThreeDigitsOrCommas(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.30000000000000004: "0.3", 1234567: "1,234,567", -4321: "-4,321", 999.6: "1000", 12.34: "12.3",
		1000: "1,000",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

// Whatever the values are, the ticks of an axis are in its range, and the range holds the values.
func TestAxesHoldTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Axis{Log: rapid.Bool().Draw(t, "log"), Zero: rapid.Bool().Draw(t, "zero")}
		least := -1e9
		if a.Log {
			least = 1e-6
		}
		low := rapid.Float64Range(least, 1e9).Draw(t, "low")
		high := rapid.Float64Range(low, 2e9).Draw(t, "high")
		low1, high1 := a.span(low, high)
		from, to, ticks := a.round(low1, high1)
		if slack := math.Abs(high1-low1) * 1e-6; from > low+slack || to < high-slack || len(ticks) < 2 ||
			len(ticks) > 60 {
			t.Fatalf("from %v to %v: axis from %v to %v, ticks %v", low, high, from, to, ticks)
		}
	})
}

func TestLogTicksAre125(t *testing.T) {
	from, to, ticks := logTicks(3, 90)
	want := []Tick{{2, "2"}, {5, "5"}, {10, "10"}, {20, "20"}, {50, "50"}, {100, "100"}}
	if diff := cmp.Diff(want, ticks); diff != "" || from != 2 || to != 100 {
		t.Errorf("from %v to %v:\n%s", from, to, diff)
	}
}

// Labels of loads that are close together on the axis do not run into each other.
func TestLabelsOfTicksHaveSpace(t *testing.T) {
	loads := []float64{1, 4, 16, 32, 38, 45, 64, 256}
	for width, hidden := range map[float64]float64{440: 38, 900: 0} {
		c := Chart{Width: width, Height: 270, X: Axis{Log: true, Ticks: TicksAt(loads...)},
			Series: []Series{{Lines: [][]Point{{{X: 1, Y: 1000}, {X: 256, Y: 9000}}}}}}
		svg := string(c.SVG())
		for _, load := range loads {
			if shown := strings.Contains(svg, ">"+Number(load)+"<"); shown == (load == hidden) {
				t.Errorf("%v wide: %v is shown: %v", width, load, shown)
			}
		}
	}
}

// chartOf returns a chart with all kinds of points.
func chartOf(text string) Chart {
	return Chart{
		Label: text, Description: text, Width: 440, Height: 270, X: Axis{Label: text, Log: true}, Y: Axis{Log: true},
		Series: []Series{{Lines: [][]Point{{
			{X: 1, Y: 5, Title: text, Label: text}, {X: 10, Y: 0, Title: "0 has no logarithm"},
			{X: 20, Y: 50, Title: "suspect", Doubt: Suspect}, {X: 20, Y: 500, Title: "invalid", Doubt: Invalid},
		}}, Style: Style{Dashed: true}, Area: true}},
	}
}

func TestSVGIsWellFormedWhateverTheTexts(t *testing.T) {
	text := `<script>"&'`
	svg := string(chartOf(text).SVG())
	d := xml.NewDecoder(strings.NewReader(svg))
	seen := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err, svg)
		}
		if data, ok := token.(xml.CharData); ok && string(data) == text {
			seen++
		}
	}
	if seen != 4 { // description, axis, title and label of a point
		t.Errorf("the text is there %d times:\n%s", seen, svg)
	}
	if strings.Contains(svg, "no logarithm") {
		t.Error("a value of 0 is on a logarithmic axis")
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("a coordinate is not a number:\n" + svg)
	}
}

func TestEqualChartsAreEqualToTheByte(t *testing.T) {
	if diff := cmp.Diff(chartOf("a").SVG(), chartOf("a").SVG()); diff != "" {
		t.Error(diff)
	}
}

func TestLabelsAtTheEdgesAreWithinTheChart(t *testing.T) {
	const label = "worse +189.33 %, image=v0.11.0"
	svg := string(Chart{Width: 400, Height: 200, Series: []Series{{Lines: [][]Point{{
		{X: 0, Y: 1, Label: label}, {X: 1000, Y: 9, Label: label},
	}}}}}.SVG())
	found := regexp.MustCompile(`x="([0-9.]+)"[^>]*"middle">`+regexp.QuoteMeta(label)).FindAllStringSubmatch(svg, -1)
	if len(found) != 2 {
		t.Fatalf("labels %q in\n%s", found, svg)
	}
	half := 3.5 * float64(len(label))
	for _, f := range found {
		if x, err := strconv.ParseFloat(f[1], 64); err != nil || x < half || x > 400-half {
			t.Errorf("the middle of a label of %.0f is at %s of 400", 2*half, f[1])
		}
	}
}

func TestNoValuesDrawAnEmptyChart(t *testing.T) {
	if svg := string((Chart{Width: 100, Height: 100, Y: Axis{Log: true}}).SVG()); !strings.Contains(svg, "</svg>") ||
		strings.Contains(svg, "NaN") {
		t.Error(svg)
	}
}

// The colours of an ordered scale end with the last one of the style sheet.
func TestRampEndsAtItsLastColour(t *testing.T) {
	for of := 1; of < 30; of++ {
		if last := (Style{Number: of - 1, Of: of}).ink(); of > 1 && last != "q7" {
			t.Errorf("the last of %d has colour %s", of, last)
		}
	}
}

// lineOf returns the chart of a line, its frame, and what is drawn.
func lineOf(points ...Point) (c Chart, f frame, drawn string) {
	for i := range points {
		points[i].Title = "point"
	}
	c = Chart{Width: 440, Height: 270, Series: []Series{{Style: Style{Number: 2}, Lines: [][]Point{points}}}}
	return c, c.frame(), string(c.SVG())
}

// A marker keeps its series' shape: doubt is a ring around it, and two where nothing can be believed.
func TestDoubtIsARingAroundTheMarker(t *testing.T) {
	for doubt := Sound; doubt <= Invalid; doubt++ {
		_, _, svg := lineOf(Point{X: 1, Y: 1, Doubt: doubt}, Point{X: 2, Y: 2, Doubt: doubt})
		triangles, rings := strings.Count(svg, `class="f s2"`), strings.Count(svg, "a7 7")/2+strings.Count(svg, "a10 10")/2
		if triangles != 2 || rings != 2*int(doubt) {
			t.Errorf("doubt %d: %d triangles, %d rings: %s", doubt, triangles, rings, svg)
		}
	}
}

// Doubtful points do not set the scale: far ones are at the border, with an arrow. Where others are few, they do.
func TestDoubtfulPointsDoNotSetTheScale(t *testing.T) {
	few := []Point{{X: 1, Y: 10}, {X: 2, Y: 12}, {X: 3, Y: 11}, {X: 4, Y: 90_000, Doubt: Suspect}}
	c, f, svg := lineOf(few...)
	at, beyond, drawn := f.show(c.Series[0].Lines[0][3])
	if f.y.high != 12 || !drawn || beyond != (place{0, -1}) || at.y != f.top || strings.Count(svg, `<g class="p">`) != 4 {
		t.Errorf("the scale ends at %v; point at %v, beyond %v, drawn: %v", f.y.high, at, beyond, drawn)
	}
	_, f, _ = lineOf(Point{X: 1, Y: 10}, Point{X: 2, Y: 12}, Point{X: 2.4, Y: 12.5, Doubt: Invalid})
	if !f.y.holds(12.5) {
		t.Error("a doubtful point near the others is not within the axes")
	}
	for i := range few {
		few[i].Doubt = Suspect
	}
	if _, f, _ = lineOf(few...); !f.y.holds(90_000) {
		t.Error("doubtful points alone do not set the scale")
	}
}

// A line of one value is drawn, and a line of steps holds each value until the next one.
func TestSingleValuesAndSteps(t *testing.T) {
	c := Chart{Width: 440, Height: 270, Series: []Series{{Lines: [][]Point{{{X: 1, Y: 1}}}}}}
	if svg := string(c.SVG()); !strings.Contains(svg, `<path class="l s0"`) {
		t.Errorf("one value draws nothing: %s", svg)
	}
	c.Series[0] = Series{Steps: true, Lines: [][]Point{{{X: 1, Y: 1}, {X: 2, Y: 2}, {X: 3, Y: 3}}}}
	_, path, _ := strings.Cut(string(c.SVG()), `<path class="l s0"`)
	path, _, _ = strings.Cut(path, "/>")
	if strings.Count(path, "h") != 3 || strings.Count(path, "v") != 2 || strings.Contains(path, "l") {
		t.Errorf("the line has no steps: %s", path)
	}
}

// Labels stand beside markers, not on them, and a series has its name at its end.
func TestLabelsCoverNoMarkers(t *testing.T) {
	points := []Point{{X: 1, Y: 5, Label: "1"}, {X: 1.2, Y: 5.6, Label: "2"}, {X: 1.4, Y: 6.2, Label: "4"}, {X: 9, Y: 9, Label: "128"}}
	c, f, _ := lineOf(points...)
	c.Series[0].Name = "vllm"
	svg := string(c.SVG())
	for _, found := range regexp.MustCompile(`class="note" x="([0-9.]+)" y="([0-9.]+)"[^>]*>([^<]*)<`).FindAllStringSubmatch(svg, -1) {
		x, _ := strconv.ParseFloat(found[1], 64)
		y, _ := strconv.ParseFloat(found[2], 64)
		for _, p := range points {
			at := f.at(p.X, p.Y)
			if math.Abs(x-at.x) < 4 && math.Abs(y-4-at.y) < 8 {
				t.Errorf("the label %s at %v, %v covers the marker at %v", found[3], x, y, at)
			}
		}
	}
	for _, want := range []string{">vllm<", ">128<", ">4<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no label %s", want)
		}
	}
}
