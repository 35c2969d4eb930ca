package jsonscan

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

func TestFirstSpecialByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\"\\ \x1f!#[]\x7f\x80\xa2"))), 8,
			8).Draw(t, "bytes")
		want := 0
		for want < 8 && !special[b[want]] {
			want++
		}
		if got := firstSpecial(binary.LittleEndian.Uint64(b)); got != want {
			t.Fatalf("%q: %d, want %d", b, got, want)
		}
	})
}
