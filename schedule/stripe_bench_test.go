package schedule

import "testing"

// agents returns the weights of 1,000 agents: equal, of three sizes, or all different with the longest allowed cycle.
func agents(kind string) []uint32 {
	ws := make([]uint32, 1000)
	for i := range ws {
		switch kind {
		case "equal":
			ws[i] = 4
		case "sizes":
			ws[i] = []uint32{4, 8, 16}[i%3]
		case "different":
			ws[i] = uint32(549 + i)
		}
	}
	return ws
}

// BenchmarkSplit builds the stripes of 1,000 agents.
func BenchmarkSplit(b *testing.B) {
	for _, kind := range []string{"equal", "sizes", "different"} {
		b.Run(kind, func(b *testing.B) {
			ws := agents(kind)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := splitNumbers(ws); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStripe builds the stripe of one of 1,000 agents.
func BenchmarkStripe(b *testing.B) {
	for _, kind := range []string{"equal", "sizes", "different"} {
		b.Run(kind, func(b *testing.B) {
			ws := agents(kind)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewStripe(ws, 500); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
