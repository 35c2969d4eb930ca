package histogram

import "slices"

// Packed keeps values that are added often and read seldom in a tenth of a Histogram's memory: its bins as they are
// encoded, and beside them the last messages as they came. One agent of a thousand has such ones. The zero value has no
// values and takes those of any layout. A Packed is not safe for concurrent use.
type Packed struct {
	layout  Layout
	totals  totals
	payload []byte   // bins of all but those that wait
	waiting [][]byte // payloads of the last messages
}

// mostWaiting is how many messages wait to be packed together. Packing walks all bins, so that more of them at once
// take less time, and more memory.
const mostWaiting = 8

// Add adds all values of e, whose bytes it keeps for a while. It is all or nothing: an error if the layouts differ,
// ErrFull if the values are too many. It packs by way of a histogram of the same layout that is used for nothing else
// meanwhile and is left in any state.
func (p *Packed) Add(e Encoded, by *Histogram) error {
	if e.totals.count == 0 {
		return nil
	}
	if p.totals.count == 0 {
		p.layout, p.totals = e.layout, none
	}
	if p.layout != e.layout || by.layout != e.layout {
		return mixed(e.layout, p.layout)
	}
	merged, ok := p.totals.plus(e.totals)
	if !ok {
		return ErrFull
	}
	p.totals = merged
	if p.waiting = append(p.waiting, e.payload); len(p.waiting) >= mostWaiting {
		p.pack(by)
	}
	return nil
}

// Count returns the number of values.
func (p *Packed) Count() uint64 { return p.totals.count }

// Unpack makes h, which has the layout of the values, the histogram of them. h keeps its memory.
func (p *Packed) Unpack(h *Histogram) {
	h.Reset()
	if p.totals.count == 0 {
		return
	}
	h.addCounts(p.payload)
	for _, payload := range p.waiting {
		h.addCounts(payload)
	}
	h.totals = p.totals
}

// pack encodes the bins anew, with those that wait.
func (p *Packed) pack(by *Histogram) {
	p.Unpack(by)
	p.payload = slices.Clip(by.appendCounts(make([]byte, 0, len(p.payload)+len(p.payload)/8+64)))
	clear(p.waiting)
	p.waiting = p.waiting[:0]
}
