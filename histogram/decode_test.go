package histogram

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// fromProto decodes a message. It is as strict as AddProto.
func fromProto(d *spatev1.Distribution) (*Histogram, error) {
	h := New(LayoutOf(d.GetMetric()))
	if err := h.AddProto(d); err != nil {
		return nil, err
	}
	return h, nil
}

// TestAddProtoRefuses spoils one thing of a good message at a time.
func TestAddProtoRefuses(t *testing.T) {
	header := func(at int, v uint32) func(*spatev1.Distribution) {
		return func(d *spatev1.Distribution) { binary.BigEndian.PutUint32(d.Histogram[at:], v) }
	}
	payload := func(counts ...int64) func(*spatev1.Distribution) {
		return func(d *spatev1.Distribution) {
			d.Histogram = d.Histogram[:headerSize]
			for _, v := range counts {
				d.Histogram = binary.AppendVarint(d.Histogram, v)
			}
			binary.BigEndian.PutUint32(d.Histogram[4:], uint32(len(d.Histogram)-headerSize))
		}
	}
	for name, spoil := range map[string]func(*spatev1.Distribution){
		"no bytes":                     func(d *spatev1.Distribution) { d.Histogram = nil },
		"half a header":                func(d *spatev1.Distribution) { d.Histogram = d.Histogram[:20] },
		"no metric":                    func(d *spatev1.Distribution) { d.Metric = 0 },
		"unknown metric":               func(d *spatev1.Distribution) { d.Metric = 999 },
		"metric of another layout":     func(d *spatev1.Distribution) { d.Metric = spatev1.Metric_METRIC_OSL },
		"cookie":                       header(0, 0x1c849314),
		"payload length":               header(4, 1),
		"normalizing index offset":     header(8, 1),
		"significant digits":           header(12, 2),
		"lowest value":                 header(20, 1),
		"highest value":                header(28, 7),
		"conversion ratio":             header(32, 0),
		"cut off count":                func(d *spatev1.Distribution) { d.Histogram[len(d.Histogram)-1] |= 0x80 },
		"bins beyond the last":         payload(-24576, 1),
		"endless run of empty bins":    payload(math.MinInt64),
		"count beyond 2^63":            payload(math.MaxInt64, math.MaxInt64, 5),
		"no values":                    payload(-4),
		"values below the smallest":    payload(1, -18, 2),
		"values above the largest":     payload(-9, 1, -30000/512, 1, -200, 1),
		"no sum":                       func(d *spatev1.Distribution) { d.Sum = nil },
		"sum too large":                func(d *spatev1.Distribution) { d.Sum.Low += 600 },
		"sum far too large":            func(d *spatev1.Distribution) { d.Sum.High = 1 },
		"sum too small":                func(d *spatev1.Distribution) { d.Sum.Low -= 1200 },
		"no sum of squares":            func(d *spatev1.Distribution) { d.SumOfSquares = nil },
		"sum of squares too large":     func(d *spatev1.Distribution) { d.SumOfSquares.Low += 40_000_000 },
		"sum of squares too small":     func(d *spatev1.Distribution) { d.SumOfSquares.Low -= 40_000_000 },
		"smallest in another bin":      func(d *spatev1.Distribution) { d.Min = 4000 },
		"smallest above the largest":   func(d *spatev1.Distribution) { d.Min = d.Max + 1 },
		"largest in another bin":       func(d *spatev1.Distribution) { d.Max += 600 },
		"largest beyond what is known": func(d *spatev1.Distribution) { d.Max = math.MaxUint64 },
	} {
		t.Run(name, func(t *testing.T) {
			d := of(Times, []int64{5000, 10_000, 30_000}).Proto(spatev1.Metric_METRIC_TTFT)
			if _, err := fromProto(d); err != nil {
				t.Fatalf("the good message was refused: %v", err)
			}
			spoil(d)
			h := of(Times, []int64{123_456})
			err := h.AddProto(d)
			if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrFull) {
				t.Fatalf("accepted, or another error: %v", err)
			}
			checkSame(t, "after the refusal", h, of(Times, []int64{123_456}))
		})
	}
}

// TestNegativeVarianceIsRefused uses sums that are each within their bounds but impossible together.
func TestNegativeVarianceIsRefused(t *testing.T) {
	d := of(Times, []int64{1 << 40, 1<<40 + 1000, 1<<40 + 2000}).Proto(spatev1.Metric_METRIC_TTFT)
	d.SumOfSquares = product(1<<40, 1<<40).scale(3).Add(Uint128{Low: 5000}).proto()
	d.Min, d.Max = 1<<40, 1<<40+2000
	if _, err := fromProto(d); !errors.Is(err, ErrInvalid) {
		t.Fatalf("accepted, or another error: %v", err)
	}
}

func TestNothingIsNotADistribution(t *testing.T) {
	if _, err := fromProto(nil); !errors.Is(err, ErrInvalid) {
		t.Fatalf("accepted, or another error: %v", err)
	}
}

// TestEmptyRoundTrip encodes and decodes an empty histogram.
func TestEmptyRoundTrip(t *testing.T) {
	d := New(Counts).Proto(spatev1.Metric_METRIC_ISL)
	h, err := fromProto(d)
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, "nothing", h, New(Counts))
	d.Max = 1
	if _, err := fromProto(d); !errors.Is(err, ErrInvalid) {
		t.Fatalf("a largest value of nothing was accepted, or another error: %v", err)
	}
}

// TestBoundsAreExact shifts one value within its bin: a message of real values is never refused.
func TestBoundsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layouts.Draw(t, "layout")
		base := rapid.Int64Range(0, geometries[l].highest-3000).Draw(t, "base")
		h := New(l)
		for _, step := range rapid.SliceOfN(rapid.Int64Range(0, 3000), 1, 5).Draw(t, "steps") {
			h.RecordN(base+step, rapid.Uint64Range(1, 1<<40).Draw(t, "n"))
		}
		back, err := fromProto(h.Proto(metricOf(l)))
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, "decoded", back, h)
	})
}

// FuzzAddProto feeds arbitrary messages: no panic, no change on an error, and an accepted message encodes again to an
// accepted message with the same totals.
func FuzzAddProto(f *testing.F) {
	for _, h := range []*Histogram{New(Times), of(Times, []int64{5000, 10_000, 30_000_000}),
		of(Counts, []int64{1, 150, 3000})} {
		b, err := proto.Marshal(h.Proto(metricOf(h.layout)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d spatev1.Distribution
		if proto.Unmarshal(b, &d) != nil {
			return
		}
		h := of(LayoutOf(d.GetMetric()), []int64{77})
		before := h.AppendHDR(nil)
		if err := h.AddProto(&d); err != nil {
			if string(h.AppendHDR(nil)) != string(before) || h.Count() != 1 {
				t.Fatalf("a refusal changed the histogram: %v", err)
			}
			return
		}
		if _, err := fromProto(h.Proto(d.GetMetric())); err != nil {
			t.Fatalf("accepted a message whose sum with another is refused: %v", err)
		}
		if math.IsNaN(h.Std()) {
			t.Fatal("accepted a message without a standard deviation")
		}
	})
}
