package wire

import (
	"bytes"
	"testing"

	"golang.org/x/net/http2"
	"pgregory.net/rapid"
)

// The scanner finds what was written, however the frames are split.
func TestFrameScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire bytes.Buffer
		preface := rapid.Bool().Draw(t, "preface")
		if preface {
			wire.WriteString(http2.ClientPreface)
		}
		f := http2.NewFramer(&wire, nil)
		f.AllowIllegalWrites = true
		var want scanned
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			data := make([]byte, rapid.IntRange(0, 300).Draw(t, "length"))
			end := rapid.Bool().Draw(t, "end")
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				_ = f.WriteData(1, end, data)
				want.data, want.ended = want.data+len(data), want.ended || end
			case 1:
				_ = f.WriteDataPadded(1, end, data, make([]byte, rapid.IntRange(0, 255).Draw(t, "padding")))
				want.data, want.ended = want.data+len(data), want.ended || end
			case 2:
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: end, EndHeaders: true,
					BlockFragment: data})
				want.ended = want.ended || end
			case 3:
				_ = f.WriteSettingsAck()
			case 4:
				_ = f.WritePing(end, [8]byte{1})
			}
		}
		scanner := &newHTTP2Frames().out
		if !preface {
			scanner = &newHTTP2Frames().in
		}
		var got scanned
		for rest := wire.Bytes(); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			part := scanner.scan(rest[:n])
			got.data, got.ended = got.data+part.data, got.ended || part.ended
			rest = rest[n:]
		}
		if got.data != want.data || got.ended != want.ended {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}
