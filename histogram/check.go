package histogram

import (
	"math/bits"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// check walks a payload and returns the totals of its message. It fails if no values can have both the bins and the
// totals.
func (g *geometry) check(payload []byte, d *spatev1.Distribution) (totals, error) {
	t := totals{sum: uint128(d.GetSum()), squares: uint128(d.GetSumOfSquares()), min: d.GetMin(), max: d.GetMax()}
	if t.min > t.max || t.max > uint64(g.highest) {
		return none, invalid("smallest value %d, largest %d, at most %d can be", t.min, t.max, g.highest)
	}
	b := newBounds(g, t.min, t.max)
	if err := b.walk(payload); err != nil {
		return none, err
	}
	switch t.count = b.count; {
	case t.count > 0:
		return t, b.check(t)
	case t != (totals{}):
		return none, invalid("no values, but sums of some")
	}
	return none, nil
}

// bounds are the smallest and the largest possible sums of the values in some bins. The bins of one page are equally
// wide, so a page's sums are kept in units of that width, as if all values were at the lower ends of their bins. They
// are added to the bounds at the end of the page.
type bounds struct {
	geometry            *geometry
	min, max            uint64
	first, last         int // bins of min and max
	count               uint64
	begin, end          int    // first and last bin with values
	atFirst, atLast     uint64 // values in them
	sumLow, sumHigh     Uint128
	squareLow, squareHi Uint128
	page                pageSums
}

// pageSums are the sums of a page's values, in units of its bins' width.
type pageSums struct {
	number  int
	before  int    // a bin's number minus its lower end in units of the page's width
	n, sum  uint64 // at most 2^44 values below 2^11
	squares Uint128
}

func newBounds(g *geometry, low, high uint64) bounds {
	return bounds{geometry: g, min: low, max: high, first: g.index(low), last: g.index(high)}
}

// walk reads a payload. Its numbers are counts of values in one bin or, negative, lengths of runs of empty bins.
func (b *bounds) walk(payload []byte) error {
	at, bins := 0, b.geometry.bins()
	for {
		took, next, err := b.walkShort(payload, at)
		payload, at = payload[took:], next
		switch {
		case err != nil:
			return err
		case at > bins:
			return invalid("%d bins of %d", at, bins)
		case len(payload) == 0:
			return nil
		}
		v, size := zigZag(payload)
		width := 1
		if v < 0 {
			width = int(-v) // the smallest int64 stays negative
		}
		switch {
		case size == 0:
			return invalid("cut off within a count at bin %d", at)
		case width < 0 || width > bins-at:
			return invalid("%d bins at bin %d of %d", width, at, bins)
		case v > 0:
			if err := b.add(at, uint64(v)); err != nil {
				return err
			}
		}
		payload = payload[size:]
		at += width
	}
}

// walkShort reads the numbers of one byte at a payload's beginning, the first at bin at. It returns how many they are,
// and the bin after them. Nearly all numbers of a window's payload have one byte. It does what add does for each, with
// counts below 64, which keep a page's sum of squares within 64 bits.
func (b *bounds) walkShort(payload []byte, at int) (took, next int, err error) {
	var added, squares uint64
	p, last, atLast := b.page, b.end, b.atLast
	for _, c := range payload {
		if c >= 0x80 {
			break
		}
		took++
		n := uint64(c >> 1)
		switch {
		case c&1 != 0:
			at += int(n) + 1
			continue
		case n == 0:
			at++
			continue
		case at < b.first || at > b.last:
			return took, at, b.outside(at)
		case b.count+added == 0:
			b.begin, b.atFirst = at, n
		}
		if at>>pageBits != p.number {
			p.squares, squares = p.squares.Add(Uint128{Low: squares}), 0
			b.page = p
			b.fold(at >> pageBits)
			p = b.page
		}
		last, atLast = at, n
		x := uint64(at - p.before)
		added += n
		p.n += n
		p.sum += x * n
		squares += x * x * n
		at++
	}
	p.squares = p.squares.Add(Uint128{Low: squares})
	b.page, b.end, b.atLast = p, last, atLast
	if added > maxCount-b.count {
		return took, at, ErrFull
	}
	b.count += added
	return took, at, nil
}

// outside returns the error of a bin with values that is not between those of the smallest and the largest value.
func (b *bounds) outside(index int) error {
	return invalid("bin %d holds values, but they lie from %d to %d", index, b.min, b.max)
}

// add adds a bin with n values. Bins must come in ascending order. The values lie within the bin, and between the
// smallest and the largest value of all.
func (b *bounds) add(index int, n uint64) error {
	switch {
	case n > maxCount-b.count:
		return ErrFull
	case index < b.first || index > b.last:
		return b.outside(index)
	case b.count == 0:
		b.begin, b.atFirst = index, n
	}
	b.end, b.atLast = index, n
	b.count += n
	p := &b.page
	if index>>pageBits != p.number {
		b.fold(index >> pageBits)
	}
	at := uint64(index - p.before)
	p.n += n
	p.sum += at * n
	high, low := bits.Mul64(at*at, n)
	var carry uint64
	p.squares.Low, carry = bits.Add64(p.squares.Low, low, 0)
	p.squares.High += high + carry
	return nil
}

// fold adds the sums of the page to the bounds and starts another page. A value counted as v, the lower end of a bin of
// width w + 1, may be up to v + w, whose square is v^2 + 2vw + w^2.
func (b *bounds) fold(next int) {
	p := b.page
	b.page = pageSums{number: next, before: (max(next, 1) - 1) << pageBits}
	shift := uint(b.geometry.unit) + uint(max(p.number, 1)-1)
	w := uint64(1)<<shift - 1
	sum, squares := product(p.sum, 1<<shift), p.squares.scale(1<<shift).scale(1<<shift)
	b.sumLow, b.squareLow = b.sumLow.Add(sum), b.squareLow.Add(squares)
	b.sumHigh = b.sumHigh.Add(sum).Add(product(p.n, w))
	b.squareHi = b.squareHi.Add(squares).Add(sum.scale(2 * w)).Add(product(w, w).scale(p.n))
}

// clamp tightens the bounds: no value in the first bin is below the smallest value, and none in the last bin above the
// largest.
func (b *bounds) clamp() {
	low, _ := b.geometry.span(b.first)
	b.sumLow = b.sumLow.Add(product(b.min-low, b.atFirst))
	b.squareLow = b.squareLow.Add(product(b.min, b.min).sub(product(low, low)).scale(b.atFirst))
	_, high := b.geometry.span(b.last)
	b.sumHigh = b.sumHigh.sub(product(high-b.max, b.atLast))
	b.squareHi = b.squareHi.sub(product(high, high).sub(product(b.max, b.max)).scale(b.atLast))
}

// within returns the smallest and the largest possible value in a bin.
func (b *bounds) within(index int) (low, high uint64) {
	low, high = b.geometry.span(index)
	return max(low, b.min), min(high, b.max)
}

// check compares a message's totals with the bounds. All sums are exact.
func (b *bounds) check(t totals) error {
	if b.begin != b.first || b.end != b.last {
		return invalid("smallest value %d and largest %d are not in the first and last bin, %d and %d", t.min, t.max,
			b.begin, b.end)
	}
	b.fold(0)
	b.clamp()
	b.pin()
	if t.sum.Less(b.sumLow) || b.sumHigh.Less(t.sum) {
		return invalid("%d values in these bins cannot have the sum %v", b.count, t.sum)
	}
	if t.squares.Less(b.squareLow) || b.squareHi.Less(t.squares) {
		return invalid("%d values in these bins cannot have the sum of squares %v", b.count, t.squares)
	}
	if _, ok := t.spread(); !ok {
		return invalid("%d values of the sum %v cannot have the sum of squares %v: their variance would be negative",
			b.count, t.sum, t.squares)
	}
	return nil
}

// pin tightens the bounds: one value of the last bin is the largest value itself, and one of the first bin the
// smallest. For a single value both bounds become that value.
func (b *bounds) pin() {
	low, _ := b.within(b.last)
	b.sumLow = b.sumLow.Add(product(b.max-low, 1))
	b.squareLow = b.squareLow.Add(product(b.max, b.max).sub(product(low, low)))
	_, high := b.within(b.first)
	b.sumHigh = b.sumHigh.sub(product(high-b.min, 1))
	b.squareHi = b.squareHi.sub(product(high, high).sub(product(b.min, b.min)))
}
