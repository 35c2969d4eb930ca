package stream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
)

// A segment of TCP can end within a chunk, behind frames that are complete: these came with it, and not with the rest of the chunk.
func TestFrameBeforeASplitChunk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive stamps here")
	}
	one, two := tokenFrame("a"), tokenFrame("b")
	for name, parts := range map[string][2]string{
		"in the next one's size":   {chunk(one) + chunk(two)[:1], chunk(two)[1:]},
		"behind the next one's":    {chunk(one) + chunk(two)[:4], chunk(two)[4:]},
		"in the next one's data":   {chunk(one) + chunk(two)[:20], chunk(two)[20:]},
		"in one with both frames":  {chunk(one + two)[:len(one)+20], chunk(one + two)[len(one)+20:]},
		"before the end of a line": {chunk(one)[:len(chunk(one))-1], "\n" + chunk(two)},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan clock.Instant, 1)
			s := newRawServer(t, func(c net.Conn, r *bufio.Reader) {
				if !takeRequest(r) {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n"+chunkedHead+chunk(roleFrame))
				<-time.After(hold / 4)
				sent <- clock.Now()
				_, _ = io.WriteString(c, parts[0])
				<-time.After(hold)
				_, _ = io.WriteString(c, parts[1]+chunk(doneFrame)+lastChunk)
			})
			o := ask(t, newTestClient(t, Config{Endpoints: []string{s.URL}}))
			if o.Err != nil || o.TokenFrames != 2 {
				t.Fatalf("%v, %d frames", o.Err, o.TokenFrames)
			}
			if late, gap := o.FirstToken.Sub(<-sent), time.Duration(o.Gaps[0]); late > gap/2 || gap < hold {
				t.Errorf("the first token is said to have come %v late, the second %v later", late, gap)
			}
		})
	}
}

// However a response is cut, each read is known by the bytes of the body that had come with it.
func TestBodyReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head := strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", rapid.IntRange(0, 2).Draw(t, "provisional")) + chunkedHead
		wire, where := []byte(head), slices.Repeat([]int{0}, len(head)) // where: bytes of the body before and with each byte
		body := 0
		add := func(text string, data bool) {
			for _, b := range []byte(text) {
				if data {
					body++
				}
				wire, where = append(wire, b), append(where, body)
			}
		}
		for range rapid.IntRange(0, 6).Draw(t, "chunks") {
			n := rapid.IntRange(1, 300).Draw(t, "length")
			add(fmt.Sprintf(rapid.SampledFrom([]string{"%x\r\n", "%X\r\n", "0%x;a=0f\r\n", "%x\n"}).Draw(t, "size"), n), false)
			add(strings.Repeat("0", n), true)
			add("\r\n", false)
		}
		add(lastChunk+"5\r\n", false)

		var b bodyReads
		b.reset()
		var want, got []mark
		for from, number := 0, uint64(1); from < len(wire); number++ {
			n := rapid.IntRange(1, len(wire)-from).Draw(t, "cut")
			by := reading{number: number}
			b.arrived(wire[from:from+n], by)
			from += n
			if !b.begun && from >= len(head) {
				b.begin(true, by)
			}
			if at := int64(where[from-1]); from >= len(head) && (len(want) == 0 && at > 0 || len(want) > 0 && at > want[len(want)-1].end) {
				want = append(want, mark{at, by})
			}
			if give := int(b.came - b.given); b.begun && give > 0 && rapid.Bool().Draw(t, "give") {
				marks, given := b.gave(rapid.IntRange(1, give).Draw(t, "given"))
				if given != b.given || marks[len(marks)-1].end < given {
					t.Fatalf("%v of %d", marks, given)
				}
				got = append(got, marks...)
			}
		}
		got = slices.CompactFunc(append(got, b.marks...), func(a, b mark) bool { return a == b })
		slices.SortFunc(got, func(a, b mark) int { return int(a.end - b.end) })
		if got = slices.Compact(got); !slices.Equal(got, want) || b.chunks.place != behindAll {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
