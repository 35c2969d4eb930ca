package histogram

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// HdrHistogram's V2 encoding: a header of 40 bytes, all numbers big endian, then the counts from bin 0 to the last one
// with values.
//
//	0  cookie          8  normalizing index offset, 0   16  lowest discernible value   32  conversion ratio, 1.0
//	4  payload length  12 significant digits            24  highest trackable value    40  payload
//
// A count is a ZigZag LEB128 number. A run of two or more empty bins is its length, negated. The compressed form is
// another cookie, the length of the rest, and all of the above compressed by zlib.
const (
	cookie           = 0x1c849303 | wordSize
	cookieCompressed = 0x1c849304 | wordSize
	wordSize         = 0x10 // nibble used by older versions of the encoding
	headerSize       = 40
)

// AppendHDR appends the uncompressed V2 encoding and returns the extended slice.
func (h *Histogram) AppendHDR(dst []byte) []byte {
	begin := len(dst)
	dst = h.geometry.appendHeader(dst)
	dst = h.appendCounts(dst)
	binary.BigEndian.PutUint32(dst[begin+4:], uint32(len(dst)-begin-headerSize))
	return dst
}

// appendHeader appends the header, with a payload length of 0.
func (g *geometry) appendHeader(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, cookie)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, digits)
	dst = binary.BigEndian.AppendUint64(dst, uint64(g.lowest))
	dst = binary.BigEndian.AppendUint64(dst, uint64(g.highest))
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(1))
}

// appendCounts appends the payload. For an empty histogram it writes one bin, like HdrHistogram. A varint of Go is a
// ZigZag LEB128 number. Counts are at most 2^44, so HdrHistogram's rule that a ninth byte holds 8 bits never applies.
func (h *Histogram) appendCounts(dst []byte) []byte {
	if h.totals.count == 0 {
		return binary.AppendVarint(dst, 0)
	}
	next := 0
	for index, n := range h.bins {
		switch empty := index - next; empty {
		case 0:
		case 1:
			dst = binary.AppendVarint(dst, 0)
		default:
			dst = binary.AppendVarint(dst, -int64(empty))
		}
		dst = binary.AppendVarint(dst, int64(n))
		next = index + 1
	}
	return dst
}

// compressors are reused: making one takes longer than compressing a histogram.
var compressors = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}

// AppendCompressedBase64 appends the compressed V2 encoding in base64, as in a line of an .hlog file, and returns the
// extended slice.
func (h *Histogram) AppendCompressedBase64(dst []byte) ([]byte, error) {
	var packed bytes.Buffer
	packed.Write(make([]byte, 8))
	w, _ := compressors.Get().(*zlib.Writer) // it has nothing else
	defer compressors.Put(w)
	w.Reset(&packed)
	_, err := w.Write(h.AppendHDR(nil))
	if err := errors.Join(err, w.Close()); err != nil {
		return dst, fmt.Errorf("histogram: compress: %w", err)
	}
	all := packed.Bytes()
	binary.BigEndian.PutUint32(all, cookieCompressed)
	binary.BigEndian.PutUint32(all[4:], uint32(len(all)-8))
	return base64.StdEncoding.AppendEncode(dst, all), nil
}

// Proto returns the histogram as the message of a metric's distribution.
func (h *Histogram) Proto(m spatev1.Metric) *spatev1.Distribution {
	return &spatev1.Distribution{
		Metric:       m,
		Histogram:    h.AppendHDR(nil),
		Sum:          h.totals.sum.proto(),
		SumOfSquares: h.totals.squares.proto(),
		Min:          uint64(h.Min()),
		Max:          uint64(h.Max()),
	}
}

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

// Packed holds values that are added often and read seldom, such as the distributions of one of a thousand agents, in a
// tenth of a Histogram's memory. It keeps its bins encoded, and the last messages as they came. The zero Packed is
// empty and takes values of any layout. A Packed is not safe for concurrent use.
type Packed struct {
	layout  Layout
	totals  totals
	payload []byte   // encoded bins without those that wait
	waiting [][]byte // payloads of the last messages
	most    int      // how many may wait
}

// mostWaiting is how many messages are collected before they are packed; the first time it is a random number up to
// that, so that the distributions of a thousand agents, which come each second, are not all packed in the same second.
// Packing walks all bins, so packing more messages at once takes less time and more memory.
const mostWaiting = 8

// Add adds all values of e and may keep e's bytes until a later call. It returns an error, and changes nothing, if the
// layouts differ, and ErrFull if there would be too many values. by is a scratch histogram with the same layout: Add
// may overwrite it and leaves it in an arbitrary state.
func (p *Packed) Add(e Encoded, by *Histogram) error {
	if e.totals.count == 0 {
		return nil
	}
	if p.totals.count == 0 {
		p.layout, p.totals, p.most = e.layout, none, 1+rand.IntN(mostWaiting)
	}
	if p.layout != e.layout || by.layout != e.layout {
		return mixed(e.layout, p.layout)
	}
	merged, ok := p.totals.plus(e.totals)
	if !ok {
		return ErrFull
	}
	p.totals = merged
	if p.waiting = append(p.waiting, e.payload); len(p.waiting) >= p.most {
		p.pack(by)
		p.most = mostWaiting
	}
	return nil
}

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

// ErrInvalid is wrapped by all errors about a message that no histogram can have produced.
var ErrInvalid = errors.New("histogram: invalid distribution")

// invalid returns an error that wraps ErrInvalid with a reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// AddProto decodes a message and adds its values. On an error the histogram is unchanged. The error wraps ErrInvalid if
// the metric is unknown or of another layout, if the bytes are not in our encoding, or if no values can have both the
// bins and the sums of the message. It is ErrFull if there are too many values. AddProto allocates only pages of bins
// that hold values, whatever the message claims.
func (h *Histogram) AddProto(d *spatev1.Distribution) error {
	e, err := Check(d)
	if err != nil {
		return err
	}
	if e.layout != h.layout {
		return invalid("%v has the layout %v, not %v", d.GetMetric(), e.layout, h.layout)
	}
	return h.Add(e)
}

// payload checks the header and returns the payload after it.
func (g *geometry) payload(encoded []byte) ([]byte, error) {
	if len(encoded) < headerSize {
		return nil, invalid("%d bytes are less than a header of %d", len(encoded), headerSize)
	}
	payload := encoded[headerSize:]
	var own [headerSize]byte
	header := g.appendHeader(own[:0])
	binary.BigEndian.PutUint32(header[4:], uint32(len(payload)))
	if !bytes.Equal(header, encoded[:headerSize]) {
		return nil, invalid("foreign header %x, want %x", encoded[:headerSize], bytes.Clone(header))
	}
	return payload, nil
}

// zigZag reads one number and returns it with its size in bytes, 0 if the number is truncated. A ninth byte holds 8
// bits and is the last.
func zigZag(b []byte) (v int64, size int) {
	var u uint64
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	for i := range min(len(b), 9) {
		if i == 8 {
			u |= uint64(b[i]) << 56
		} else {
			u |= uint64(b[i]&0x7f) << (7 * i)
		}
		if b[i] < 0x80 || i == 8 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}
