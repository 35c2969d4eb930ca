package histogram

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

// Encoded is a checked distribution that is still encoded. It shares the bytes of its message. Adding it to a histogram
// only walks the bins that hold values, so one message can be added to many histograms without being unpacked. The zero
// Encoded is empty. An Encoded may be copied and read concurrently.
type Encoded struct {
	layout  Layout
	payload []byte
	totals  totals
}

// Check checks a message as strictly as AddProto, and allocates nothing. The caller must not change the message while
// the result is in use.
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

// Add adds all values of e. It returns an error, and changes nothing, if the layouts differ, and ErrFull if there would
// be too many values. It allocates only pages that are used for the first time.
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

// addCounts adds the bins of a checked payload. Nearly all numbers of a window's payload have one byte.
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
