package histogram

import (
	"math/bits"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Layout is the range and resolution of a histogram. Only histograms with the same layout can be merged.
type Layout uint8

const (
	// Times holds nanoseconds from 1 us to 1 h with 3 significant digits. Below 1 us the bins are 512 ns wide.
	Times Layout = iota
	// Counts holds whole numbers from 1 to 2^31 with 3 significant digits. Numbers up to 2047 have one bin each.
	Counts
)

// LayoutOf returns the layout of a metric: Times for metrics in nanoseconds, else Counts.
func LayoutOf(m spatev1.Metric) Layout {
	if measure.Of(m).Unit == measure.Nanoseconds {
		return Times
	}
	return Counts
}

// String names the layout.
func (l Layout) String() string { return [...]string{Times: "times", Counts: "counts"}[l] }

// The bins of HdrHistogram. 3 significant digits need 2 x 10^3 equal bins from 0 to a power of two, rounded up to 2048.
// Finer bins already cover the lower half, so each further power of two adds a page of 1024 bins.
const (
	digits   = 3
	binBits  = 11
	pageBits = binBits - 1
	pageBins = 1 << pageBits
	maxPages = 24
)

// geometry is a layout in HdrHistogram's terms.
type geometry struct {
	lowest  int64 // lowest discernible value
	highest int64 // highest trackable value
	unit    uint8 // log2 of the finest bin's width: the largest power of two not above lowest
	pages   int   // pages needed to reach highest: one for the lowest half, then one per power of two
}

var geometries = [...]geometry{
	Times:  {lowest: 1_000, highest: 3_600_000_000_000, unit: 9, pages: 24},
	Counts: {lowest: 1, highest: 1 << 31, unit: 0, pages: 23},
}

// clamp moves a value into the layout's range.
func (g *geometry) clamp(v int64) uint64 { return uint64(min(max(v, 0), g.highest)) }

// bins returns the number of bins.
func (g *geometry) bins() int { return g.pages * pageBins }

// index returns the bin of a value within the range. A value with k more bits than the finest 2048 bins cover loses its
// lowest k bits.
func (g *geometry) index(v uint64) int {
	shift := bits.Len64(v|g.finest()) - binBits
	return (shift-int(g.unit))<<pageBits + int(v>>(uint(shift)&63))
}

// finest returns the largest value with the finest resolution.
func (g *geometry) finest() uint64 { return 1<<((g.unit+binBits)&63) - 1 }

// span returns the smallest and the largest value of a bin.
func (g *geometry) span(index int) (low, high uint64) {
	above := max(index>>pageBits, 1) - 1 // pages above the finest two
	shift := uint(g.unit) + uint(above)
	low = uint64(index-above<<pageBits) << (shift & 63)
	return low, low + 1<<(shift&63) - 1
}
