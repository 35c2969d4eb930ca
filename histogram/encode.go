package histogram

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
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

// appendCounts appends the payload. For an empty histogram it writes one bin, like HdrHistogram.
func (h *Histogram) appendCounts(dst []byte) []byte {
	if h.totals.count == 0 {
		return appendZigZag(dst, 0)
	}
	next := 0
	for index, n := range h.bins {
		switch empty := index - next; empty {
		case 0:
		case 1:
			dst = appendZigZag(dst, 0)
		default:
			dst = appendZigZag(dst, -int64(empty))
		}
		dst = appendZigZag(dst, int64(n))
		next = index + 1
	}
	return dst
}

// appendZigZag appends a number in groups of 7 bits, lowest first, with the sign in the lowest bit. Counts are at most
// 2^44, so HdrHistogram's rule that a ninth byte holds 8 bits never applies.
func appendZigZag(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

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
	if _, err := w.Write(h.AppendHDR(nil)); err != nil {
		return dst, fmt.Errorf("histogram: compress: %w", err)
	}
	if err := w.Close(); err != nil {
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
