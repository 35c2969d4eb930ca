package histogram

import "slices"

// Packed holds values that are added often and read seldom, such as the distributions of one of a thousand agents, in a
// tenth of a Histogram's memory. It keeps its bins encoded, and the last messages as they came. The zero Packed is
// empty and takes values of any layout. A Packed is not safe for concurrent use.
type Packed struct {
	layout  Layout
	totals  totals
	payload []byte   // encoded bins without those that wait
	waiting [][]byte // payloads of the last messages
}

// mostWaiting is how many messages are collected before they are packed. Packing walks all bins, so packing more
// messages at once takes less time and more memory.
const mostWaiting = 8

// Add adds all values of e and may keep e's bytes until a later call. It returns an error, and changes nothing, if the
// layouts differ, and ErrFull if there would be too many values. by is a scratch histogram with the same layout: Add
// may overwrite it and leaves it in an arbitrary state.
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

// Unpack sets h to the values. h must have their layout, and keeps its memory.
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

// pack encodes the bins again, including those of the waiting messages.
func (p *Packed) pack(by *Histogram) {
	p.Unpack(by)
	p.payload = slices.Clip(by.appendCounts(make([]byte, 0, len(p.payload)+len(p.payload)/8+64)))
	clear(p.waiting)
	p.waiting = p.waiting[:0]
}
