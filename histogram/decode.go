package histogram

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
