package scrape

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// pageOf returns a page of vLLM 0.32 with that many engines: 636 lines and 49 KiB for one, without HELP lines.
func pageOf(b *testing.B, engines int) []byte {
	b.Helper()
	one, err := os.ReadFile("testdata/vllm-0.32.txt")
	if err != nil {
		b.Fatal(err)
	}
	var page strings.Builder
	for line := range strings.Lines(string(one)) {
		page.WriteString(line)
		for engine := 1; engine < engines && strings.Contains(line, `engine="0"`); engine++ {
			page.WriteString(strings.Replace(line, `engine="0"`, fmt.Sprintf(`engine="%d"`, engine), 1))
		}
	}
	return []byte(page.String())
}

// BenchmarkReading measures the cost of a reading for an agent: samples each second, totals at the ends of a stage, and
// the whole page without a filter.
func BenchmarkReading(b *testing.B) {
	wanted, account := newNames(defaults(b)), newNames(servermetrics.Account(&spatev1.Target{}))
	for _, engines := range []int{1, 8} {
		page := pageOf(b, engines)
		for name, read := range map[string]func() error{
			"samples":    func() error { _, _, err := parse(page, wanted, account); return err },
			"totals":     func() error { _, err := readTotals(page, account, "tiny"); return err },
			"unfiltered": func() error { _, err := familiesOf(page); return err },
		} {
			b.Run(fmt.Sprintf("%s/engines=%d", name, engines), func(b *testing.B) {
				b.SetBytes(int64(len(page)))
				b.ReportAllocs()
				for b.Loop() {
					if err := read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
