package histogram

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// Encoded is a distribution that was checked and still lies in its message, whose bytes it shares. Adding it to a
// histogram walks the bins that hold values and nothing else, so that one message goes into many histograms without
// being unpacked. The zero value has no values. It is a value and may be copied and read concurrently.
type Encoded struct {
	layout  Layout
	payload []byte
	totals  totals
}

// Check reads a message, as strictly as AddProto, and allocates nothing. The caller must not change the message while
// the result is used.
func Check(d *spatev1.Distribution) (Encoded, error) {
	m := d.GetMetric()
	if _, known := spatev1.Metric_name[int32(m)]; !known || m == spatev1.Metric_METRIC_UNSPECIFIED {
		return Encoded{}, invalid("unknown metric %d", m)
	}
	layout := LayoutOf(m)
	g := &geometries[layout]
	payload, err := g.payload(d.GetHistogram())
	if err != nil {
		return Encoded{}, err
	}
	t, err := g.check(payload, d)
	if err != nil {
		return Encoded{}, err
	}
	return Encoded{layout, payload, t}, nil
}

// Count returns the number of values.
func (e Encoded) Count() uint64 { return e.totals.count }

// Layout returns the layout of the values.
func (e Encoded) Layout() Layout { return e.layout }

// Add adds all values of e. It is all or nothing: an error if the layouts differ, ErrFull if the values are too many.
// It allocates only when a page is touched for the first time.
func (h *Histogram) Add(e Encoded) error {
	if e.totals.count == 0 {
		return nil
	}
	if h.layout != e.layout {
		return mixed(e.layout, h.layout)
	}
	merged, ok := h.totals.plus(e.totals)
	if !ok {
		return ErrFull
	}
	h.addCounts(e.payload)
	h.totals = merged
	return nil
}

// addCounts adds the bins of a payload that was checked. Nearly all numbers of a window have one byte.
func (h *Histogram) addCounts(payload []byte) {
	at := 0
	for len(payload) > 0 {
		v, size := int64(payload[0]>>1)^-int64(payload[0]&1), 1
		if payload[0] >= 0x80 {
			v, size = zigZag(payload)
		}
		payload = payload[size:]
		switch {
		case v > 0:
			p := h.pages[at>>pageBits]
			if p == nil {
				p = h.touch(at >> pageBits)
			}
			p[at%pageBins] += uint64(v)
			at++
		case v == 0:
			at++
		default:
			at += int(-v)
		}
	}
}
