package histogram

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// check walks a payload and returns the totals of its message, or why no values can have both.
func (g *geometry) check(payload []byte, d *spatev1.Distribution) (totals, error) {
	t := totals{sum: uint128(d.GetSum()), squares: uint128(d.GetSumOfSquares()), min: d.GetMin(), max: d.GetMax()}
	if t.min > t.max || t.max > uint64(g.highest) {
		return none, invalid("smallest value %d, largest %d, at most %d can be", t.min, t.max, g.highest)
	}
	b := bounds{geometry: g, min: t.min, max: t.max}
	c := cursor{rest: payload, bins: g.bins()}
	for {
		index, n, err := c.next()
		if err != nil {
			return none, err
		}
		if n == 0 {
			break
		}
		if err := b.add(index, n); err != nil {
			return none, err
		}
	}
	t.count = b.count
	if t.count == 0 {
		return none, checkEmpty(t)
	}
	return t, b.check(t)
}

// checkEmpty refuses sums of no values.
func checkEmpty(t totals) error {
	if t != (totals{}) {
		return invalid("no values, but sums of some")
	}
	return nil
}

// bounds are the least and the most that the sums of the values in some bins can be.
type bounds struct {
	geometry            *geometry
	min, max            uint64
	count               uint64
	first, last         int
	sumLow, sumHigh     Uint128
	squareLow, squareHi Uint128
}

// add takes in a bin that holds n values. Its values lie within the bin and between the smallest and the largest value of
// all.
func (b *bounds) add(index int, n uint64) error {
	if n > maxCount-b.count {
		return ErrFull
	}
	low, high := b.within(index)
	if low > high {
		return invalid("bin %d holds values, but they lie from %d to %d", index, b.min, b.max)
	}
	if b.count == 0 {
		b.first = index
	}
	b.last = index
	b.count += n
	b.sumLow, b.sumHigh = b.sumLow.Add(product(low, n)), b.sumHigh.Add(product(high, n))
	b.squareLow, b.squareHi = b.squareLow.Add(product(low, low).scale(n)), b.squareHi.Add(product(high, high).scale(n))
	return nil
}

// within returns the smallest and the largest value that a bin's values can have.
func (b *bounds) within(index int) (low, high uint64) {
	low, high = b.geometry.span(index)
	return max(low, b.min), min(high, b.max)
}

// check compares a message's totals with the bounds, all of them exact.
func (b *bounds) check(t totals) error {
	if b.geometry.index(t.min) != b.first || b.geometry.index(t.max) != b.last {
		return invalid("smallest value %d and largest %d are not in the first and last bin, %d and %d", t.min, t.max, b.first, b.last)
	}
	b.pin()
	if t.sum.Less(b.sumLow) || b.sumHigh.Less(t.sum) {
		return invalid("%d values in these bins cannot have the sum %v", b.count, t.sum)
	}
	if t.squares.Less(b.squareLow) || b.squareHi.Less(t.squares) {
		return invalid("%d values in these bins cannot have the sum of squares %v", b.count, t.squares)
	}
	if _, ok := t.spread(); !ok {
		return invalid("%d values of the sum %v cannot have the sum of squares %v: their variance would be negative", b.count, t.sum, t.squares)
	}
	return nil
}

// pin uses that one value of the last bin is the largest itself, and one of the first bin the smallest. Of a single value it
// leaves just that one.
func (b *bounds) pin() {
	low, _ := b.within(b.last)
	b.sumLow = b.sumLow.Add(product(b.max-low, 1))
	b.squareLow = b.squareLow.Add(product(b.max, b.max).sub(product(low, low)))
	_, high := b.within(b.first)
	b.sumHigh = b.sumHigh.sub(product(high-b.min, 1))
	b.squareHi = b.squareHi.sub(product(high, high).sub(product(b.min, b.min)))
}
