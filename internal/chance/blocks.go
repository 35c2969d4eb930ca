package chance

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// FewestBlocks is the least number of blocks that a series must hold: with fewer, the spread of the blocks is itself
// too uncertain to say anything.
const FewestBlocks = 5

// caution multiplies the length of blocks. BlockLength makes the error of the variance least, at the price of one
// that is too small on average, which a test cannot afford. See TestSeriesKnowsNeighbours.
const caution = 2

// Series returns the spread of the mean of a series in time, whose values depend on their neighbours. It returns false
// if the series is too short: fewer than five blocks.
//
// The spread is that of the circular block bootstrap (Politis, Romano 1992), which keeps neighbours together in blocks
// of twice the length BlockLength, or of least values if that is more. For a mean, the bootstrap needs no drawing: its
// variance is that of the means of all blocks. The same formula is known as overlapping batch means (Meketon, Schmeiser
// 1984), from which the degrees of freedom are taken, and the factor that makes up for blocks' means being compared
// with the mean of the same series.
func Series(values []float64, least int) (Spread, bool) {
	n := len(values)
	block := max(least, caution*BlockLength(values))
	if n < FewestBlocks*block {
		return Spread{Block: block}, false
	}
	blocks := float64(n) / float64(block)
	variance := meanSquare(blockMeans(values, block)) / (blocks - 1)
	return Spread{Error: math.Sqrt(variance), Freedom: freedomPerBlock*blocks - 1, Block: block}, true
}

// Fitted returns the spread of a series out of which a slope was taken: the slope took some of the chance with it, as
// if there were a block less.
func (s Spread) Fitted() Spread {
	blocks := (s.Freedom + 1) / freedomPerBlock
	wider := math.Sqrt((blocks - 1) / (blocks - 2))
	return Spread{Error: s.Error * wider, Freedom: s.Freedom - freedomPerBlock, Block: s.Block}
}

// freedomPerBlock is the degrees of freedom of a block of overlapping ones.
const freedomPerBlock = 1.5

// blockMeans returns the means of the blocks that start at each value, less the mean of all values. The series is a
// circle: the first value follows the last one.
func blockMeans(values []float64, block int) []float64 {
	all, sum := mean(values), floats.Sum(values[:block])
	means := make([]float64, len(values))
	for i := range values {
		means[i] = sum/float64(block) - all
		sum += values[(i+block)%len(values)] - values[i]
	}
	return means
}

func meanSquare(values []float64) float64 { return floats.Dot(values, values) / float64(len(values)) }

// BlockLength returns the length of blocks that the series' own correlations ask for, for the circular block bootstrap
// of its mean: Politis, White 2004, as corrected by Patton, Politis, White 2009.
func BlockLength(values []float64) int {
	n := len(values)
	most := int(math.Ceil(min(3*math.Sqrt(float64(n)), float64(n)/3)))
	correlated := autocovariances(values, most+windowRun(n))
	if len(correlated) == 0 || correlated[0] <= 0 {
		return 1
	}
	width := min(2*correlatedLags(correlated, n), len(correlated)-1)
	spectrum, slope := correlated[0], 0.0
	for lag := 1; lag <= width; lag++ {
		weight := flatTop(float64(lag) / float64(width))
		spectrum += 2 * weight * correlated[lag]
		slope += 2 * weight * float64(lag) * correlated[lag]
	}
	if spectrum <= 0 || slope <= 0 {
		return 1
	}
	ratio := 2 * slope * slope / (4.0 / 3 * spectrum * spectrum)
	return min(int(math.Ceil(math.Cbrt(ratio*float64(n)))), most)
}

// windowRun is the number of lags in a row without correlation after which there is taken to be none.
func windowRun(n int) int { return max(5, int(math.Ceil(math.Sqrt(math.Log10(float64(n)))))) }

// correlatedLags returns the largest lag of the correlations that differ from chance: the smallest lag after which a
// run of windowRun lags shows none.
func correlatedLags(covariances []float64, n int) int {
	band := 2 * math.Sqrt(math.Log10(float64(n))/float64(n)) * covariances[0]
	quiet, last := 0, 0
	for lag := 1; lag < len(covariances); lag++ {
		if math.Abs(covariances[lag]) < band {
			if quiet++; quiet == windowRun(n) {
				return max(1, lag-quiet)
			}
			continue
		}
		quiet, last = 0, lag
	}
	return max(1, last)
}

// autocovariances returns the covariances of a series with itself, from lag 0 to a largest lag.
func autocovariances(values []float64, most int) []float64 {
	n, centred := len(values), slices.Clone(values)
	floats.AddConst(-mean(values), centred)
	out := make([]float64, min(most+1, n))
	for lag := range out {
		out[lag] = floats.Dot(centred[:n-lag], centred[lag:]) / float64(n)
	}
	return out
}

// flatTop is the trapezoidal lag window of Politis, Romano 1995.
func flatTop(t float64) float64 { return max(0, min(1, 2*(1-t))) }
