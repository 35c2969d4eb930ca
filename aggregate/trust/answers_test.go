package trust

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/spate-load/spate/measure"
)

// drawn returns how many of n answers differ.
func drawn(random *rand.Rand, n uint64, p float64) uint64 {
	return uint64(distuv.Binomial{N: float64(n), P: p, Src: random}.Rand())
}

// drawnCanaries returns what canaries find at endpoints whose answers differ with a probability when quiet, and with
// one for each endpoint under load. asked is the number of answers of an endpoint under load; when quiet, there are
// 1,000 of all endpoints.
func drawnCanaries(random *rand.Rand, asked uint64, quiet float64, load ...float64) (e Evidence) {
	alone := 1000 / uint64(len(load))
	for i, p := range load {
		e.Canaries = append(e.Canaries, Canaries{Endpoint: fmt.Sprintf("10.0.0.%d:8000", i+1),
			QuietAsked: alone, QuietDiffering: drawn(random, alone, quiet),
			Asked: asked, Differing: drawn(random, asked, p)})
	}
	return e
}

// Wrong answers are found, and their endpoint is named, with as many canaries as docs/answers.md says.
func TestWrongAnswersAreFound(t *testing.T) {
	const times = 300
	for _, c := range []struct {
		asked  uint64
		load   []float64
		where  string
		always bool // also when quiet
	}{
		{2000, []float64{0.01}, "at 10.0.0.1:8000 differ", false},
		{700, []float64{0.02}, "at 10.0.0.1:8000 differ", false},
		{200, []float64{0.05}, "at 10.0.0.1:8000 differ", false},
		{110, []float64{0.1}, "at 10.0.0.1:8000 differ", false},
		{1500, []float64{0, 0, 0.01, 0}, "at 10.0.0.3:8000 differ", false},
		{1500, []float64{0, 0, 0.01, 0}, "at 10.0.0.3:8000 differ", true},
		{750, []float64{0, 0, 0.02, 0}, "at 10.0.0.3:8000 differ", false},
		{280, []float64{0, 0.05, 0, 0}, "at 10.0.0.2:8000 differ", false},
	} {
		random, found := rand.New(rand.NewPCG(1, c.asked)), 0
		for range times {
			e := drawnCanaries(random, c.asked, 0, c.load...)
			for i := range e.Canaries {
				if one := &e.Canaries[i]; c.always {
					one.QuietDiffering = drawn(random, one.QuietAsked, c.load[i])
				}
			}
			got, made := answers(e)
			if made && got.Verdict != Valid && strings.Contains(got.Words, c.where) {
				found++
			}
		}
		if found < times*95/100 {
			t.Errorf("%d canaries at %v: found %d of %d times", c.asked, c.load, found, times)
		}
	}
}

// A server that answers no otherwise under load than when it is quiet is accused one time in a hundred at most, however
// often its answers differ and however many canaries there are.
func TestSoundServersAreNotAccused(t *testing.T) {
	const times = 500
	for _, noise := range []float64{0, 0.003, 0.03} {
		for _, asked := range []uint64{100, 2000} {
			for _, endpoints := range []int{1, 4} {
				load := []float64{noise, noise, noise, noise}[:endpoints]
				random, accused := rand.New(rand.NewPCG(2, asked)), 0
				for range times {
					got, made := answers(drawnCanaries(random, asked, noise, load...))
					if made && got.Verdict != Valid {
						accused++
					}
				}
				if accused > times/100+4 { // two standard errors
					t.Errorf("%d canaries at each of %d endpoints, %v %% noise: accused %d of %d times", asked, endpoints,
						100*noise, accused, times)
				}
			}
		}
	}
}

func TestAnswersOfANoisyServerAreNotJudged(t *testing.T) {
	noisy := Canaries{Asked: 1000, Differing: 500, QuietAsked: 1000, QuietDiffering: 51}
	for _, all := range [][]Canaries{nil, {{QuietAsked: 1000}}, {{Asked: 5}}, {noisy}} {
		if c, made := answers(Evidence{Canaries: all}); made {
			t.Errorf("%+v: %+v", all, c)
		}
	}
}

// An endpoint whose answers differ when it is quiet is accused if those of the others do not, unless they differ much.
func TestAnEndpointAmongOthers(t *testing.T) {
	e := Evidence{Canaries: []Canaries{{Endpoint: "a", Asked: 1000, QuietAsked: 500},
		{Endpoint: "b", Asked: 1000, Differing: 60, QuietAsked: 500, QuietDiffering: 26}}}
	if c, _ := answers(e); strings.Contains(c.Words, "at b") {
		t.Errorf("%s: %s", c.Verdict, c.Words)
	}
	e.Canaries[1].Differing, e.Canaries[1].QuietDiffering = 30, 1
	const want = "3 % of the 1000 canaries at b differ under load (2.1 to 4.3 %), 0.2 % of 500 when quiet" +
		", 0 % of 1500 at the other endpoints"
	if c, _ := answers(e); c.Verdict != Invalid || c.Words != want {
		t.Errorf("%s: %s, want %s", c.Verdict, c.Words, want)
	}
}

// Canaries are told as part of the load, also if their answers are not judged.
func TestCanariesAreTold(t *testing.T) {
	e := sound()
	e.Canaries[0].QuietDiffering, e.Canaries[0].QuietTasks, e.Canaries[0].QuietRight = 400, 150, 149
	c := &e.Counts
	c[measure.Canaries], c[measure.CanariesFailed], c[measure.CanariesDiffering] = 998, 2, 7
	c[measure.CanaryTasks], c[measure.CanaryTasksRight] = 300, 290
	c[measure.CanaryWordsAlike], c[measure.GarbledAnswers], c[measure.EmptyAnswers] = 14, 3, 2
	garbled := fmt.Sprintf("of %d answers 3 are garbled (replacement characters, or one token over and over), and 2 have no "+
		"text: look whether that is the model's doing or the load's", c[measure.Completed])
	const want = "1000 canaries went beside the requests and are in no number of theirs; 2 of them failed, 7 differ from the " +
		"quiet answers (400 of 1000 when quiet) from word 3.0 on, on average, and 290 of 300 tasks were answered right (149 of 150 when quiet)"
	got := Judge(e)
	if !slices.Contains(got.Notes, want) || !slices.Contains(got.Notes, garbled) || got.Verdict != Valid {
		t.Errorf("%s, %q", got.Verdict, got.Notes)
	}
}

// Tasks that are answered wrong under load decide, also if the texts of answers differ by themselves. Sound servers are
// accused one time in a hundred at most.
func TestWrongTasksAreFound(t *testing.T) {
	const times, asked = 300, 300
	for _, right := range []float64{1, 0.8} {
		random, found, accused := rand.New(rand.NewPCG(3, 3)), 0, 0
		for range times {
			e := drawnCanaries(random, asked, 0.2, 0.2)
			e.Canaries[0].QuietTasks, e.Counts[measure.CanaryTasks] = 300, asked
			e.Canaries[0].QuietRight = drawn(random, 300, right)
			e.Counts[measure.CanaryTasksRight] = drawn(random, asked, right)
			if got, _ := answers(e); got.Verdict != Valid {
				accused++
			}
			e.Counts[measure.CanaryTasksRight] = drawn(random, asked, right-0.2)
			if got, _ := answers(e); got.Verdict != Valid && strings.Contains(got.Words, "tasks are answered wrong under load") {
				found++
			}
		}
		if found < times*95/100 || accused > times/100+4 {
			t.Errorf("right %v: found %d, accused %d of %d", right, found, accused, times)
		}
	}
}
