package netlab

import (
	"io"
	"testing"
)

// BenchmarkStream carries a TCP stream from host to host and back, without delay, to show what the lab itself can
// carry.
func BenchmarkStream(b *testing.B) {
	lab := New(b)
	from, to := lab.Host("from"), lab.Host("to")
	conn := dial(b, from, echo(b, to))
	const chunk = 64 << 10
	b.SetBytes(chunk)
	for b.Loop() {
		go func() { _, _ = conn.Write(make([]byte, chunk)) }()
		if _, err := io.CopyN(io.Discard, conn, chunk); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(lab.Count(from, to).Carried+lab.Count(to, from).Carried)/b.Elapsed().Seconds(), "packets/s")
}
