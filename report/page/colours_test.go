package page

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"
)

// linear returns the linear light of a colour of the style sheet.
func linear(t *testing.T, hex string) (v [3]float64) {
	for i := range v {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if v[i] = float64(n) / 255 / 12.92; n > 10 {
			v[i] = math.Pow((float64(n)/255+0.055)/1.055, 2.4)
		}
	}
	return v
}

// product returns a matrix times a colour.
func product(m [9]float64, v [3]float64) (out [3]float64) {
	for i := range m {
		out[i/3] += m[i] * v[i%3]
	}
	return out
}

// perceived returns a colour in OKLab, in which distances are about those that people see (Ottosson 2020).
func perceived(v [3]float64) [3]float64 {
	lms := product([9]float64{0.41222, 0.53633, 0.05145, 0.21190, 0.68070, 0.10740, 0.08830, 0.28172, 0.62998}, v)
	for i := range lms {
		lms[i] = math.Cbrt(lms[i])
	}
	return product([9]float64{0.21045, 0.79362, -0.00407, 1.97800, -2.42859, 0.45059, 0.02590, 0.78277, -0.80868}, lms)
}

// eyes are what eyes see: all colours, or without one of three kinds of cones (Machado, Oliveira and Fernandes 2009).
var eyes = map[string][9]float64{
	"all":          {1, 0, 0, 0, 1, 0, 0, 0, 1},
	"protanopia":   {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
	"deuteranopia": {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
	"tritanopia":   {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900},
}

// Colours of series stand out from what is behind them, and from each other also to those who see fewer colours.
func TestColoursOfSeriesHold(t *testing.T) {
	themes := regexp.MustCompile(`(?s)--paper: .*?--s7: #\w{6}`).FindAllString(style, -1)
	if len(themes) != 2 {
		t.Fatalf("%d themes, want light and dark", len(themes))
	}
	for _, theme := range themes {
		found := map[string][3]float64{}
		for _, c := range regexp.MustCompile(`--(\w+): #(\w{6})`).FindAllStringSubmatch(theme, -1) {
			found[c[1]] = linear(t, c[2])
		}
		light := func(name string) float64 {
			return 0.2126*found[name][0] + 0.7152*found[name][1] + 0.0722*found[name][2] + 0.05
		}
		for i := range 8 {
			a := fmt.Sprint("s", i)
			for _, behind := range []string{"paper", "panel"} {
				if c := max(light(a), light(behind)) / min(light(a), light(behind)); c < 3 {
					t.Errorf("%s on %s: a contrast of %.2f, want 3", a, behind, c)
				}
			}
			for eye, m := range eyes {
				for j := range i {
					b := fmt.Sprint("s", j)
					one, other := perceived(product(m, found[a])), perceived(product(m, found[b]))
					if d := math.Hypot(math.Hypot(one[0]-other[0], one[1]-other[1]), one[2]-other[2]); d < 0.09 {
						t.Errorf("%s and %s are %.3f apart, to eyes with %s", a, b, d, eye)
					}
				}
			}
		}
	}
}
