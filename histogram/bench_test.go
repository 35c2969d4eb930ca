package histogram

import (
	"math"
	"math/rand/v2"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// typical returns n latencies like those of a window: around 20 ms with a tail.
func typical(n int) []int64 {
	r := rand.New(rand.NewPCG(1, 2))
	vs := make([]int64, n)
	for i := range vs {
		vs[i] = int64(20e6 * math.Exp(r.NormFloat64()/3))
	}
	return vs
}

const window = 2000 // values per metric, agent and second

func BenchmarkRecord(b *testing.B) {
	vs := typical(4096)
	h := of(Times, vs)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		h.Record(vs[i&4095])
	}
}

func BenchmarkRecordPeer(b *testing.B) {
	vs := typical(4096)
	h := peer(Times, vs)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = h.RecordValue(vs[i&4095])
	}
}

func BenchmarkMerge(b *testing.B) {
	from, into := of(Times, typical(window)), New(Times)
	b.ReportAllocs()
	for b.Loop() {
		if err := into.Merge(from); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMergePeer(b *testing.B) {
	from, into := peer(Times, typical(window)), peer(Times, nil)
	b.ReportAllocs()
	for b.Loop() {
		into.Merge(from)
	}
}

func BenchmarkAppendHDR(b *testing.B) {
	h := of(Times, typical(window))
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = h.AppendHDR(dst[:0])
	}
	b.ReportMetric(float64(len(dst)), "B/message")
}

func BenchmarkEncodePeer(b *testing.B) {
	h := peer(Times, typical(window))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Encode(hdr.V2CompressedEncodingCookieBase); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAddProto(b *testing.B) {
	d, into := of(Times, typical(window)).Proto(spatev1.Metric_METRIC_ITL), New(Times)
	b.ReportAllocs()
	for b.Loop() {
		if err := into.AddProto(d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeAndMergePeer(b *testing.B) {
	line, err := peer(Times, typical(window)).Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		b.Fatal(err)
	}
	into := peer(Times, nil)
	b.ReportAllocs()
	for b.Loop() {
		from, err := hdr.Decode(line)
		if err != nil {
			b.Fatal(err)
		}
		into.Merge(from)
	}
}

func BenchmarkPercentile(b *testing.B) {
	h := of(Times, typical(window))
	b.ReportAllocs()
	for b.Loop() {
		h.Percentile(99)
	}
}

// BenchmarkAddEncoded adds a checked message to a histogram.
func BenchmarkAddEncoded(b *testing.B) {
	e, err := Check(of(Times, typical(window)).Proto(spatev1.Metric_METRIC_ITL))
	if err != nil {
		b.Fatal(err)
	}
	into := New(Times)
	b.ReportAllocs()
	for b.Loop() {
		if err := into.Add(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAddEncodedSparse is BenchmarkAddEncoded for few values far apart, like those of one agent of a thousand.
func BenchmarkAddEncodedSparse(b *testing.B) {
	e, err := Check(of(Times, typical(20)).Proto(spatev1.Metric_METRIC_ITL))
	if err != nil {
		b.Fatal(err)
	}
	into := New(Times)
	b.ReportAllocs()
	for b.Loop() {
		if err := into.Add(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck measures the check whether a message can be merged.
func BenchmarkCheck(b *testing.B) {
	d := of(Times, typical(window)).Proto(spatev1.Metric_METRIC_ITL)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Check(d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPackedAdd adds messages to the values of one agent, over a minute of messages.
func BenchmarkPackedAdd(b *testing.B) {
	messages := make([]Encoded, 60)
	for i := range messages {
		var err error
		if messages[i], err = Check(of(Times,
			typical(window)[i*30:i*30+200]).Proto(spatev1.Metric_METRIC_E2E)); err != nil {
			b.Fatal(err)
		}
	}
	by := New(Times)
	b.ReportAllocs()
	var p Packed
	for i := 0; b.Loop(); i++ {
		if i%len(messages) == 0 {
			p = Packed{}
		}
		if err := p.Add(messages[i%len(messages)], by); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(p.payload)), "B/packed")
}
