package rows

import (
	"bytes"
	"testing"
)

// FuzzRows opens arbitrary input as a rows file, and reads all rows that it claims to have.
func FuzzRows(f *testing.F) {
	f.Add(written(f, []Row{{OSL: 1, Kind: Text, Content: []byte("x")},
		{OSL: 1, Kind: Session, TurnCount: 1, Turns: []Turn{{OSL: 1}}}}, LongRecord))
	f.Add(written(f, make([]Row, 3), ShortRecord))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := New(bytes.NewReader(b), int64(len(b))); err == nil {
			var row Row
			for i := range min(r.Len(), 1000) {
				_ = r.Read(i, &row)
				r.At(i)
			}
		}
	})
}

// FuzzContent reads arbitrary input as the content of a row. Content that can be read must be the same after it is
// written and read again.
func FuzzContent(f *testing.F) {
	for k := range kinds {
		f.Add(uint8(k), uint32(1), []byte("\x01\x02\x03\x00\x01a\x00"))
	}
	f.Fuzz(func(t *testing.T, kind uint8, turns uint32, b []byte) {
		row := Row{Kind: Kind(kind % uint8(kinds)), TurnCount: turns}
		if parseContent(b, &row) != nil {
			return
		}
		again := Row{Kind: row.Kind, TurnCount: turns}
		once := appendContent(nil, &row)
		if err := parseContent(once, &again); err != nil {
			t.Fatal(err)
		}
		if twice := appendContent(nil, &again); !bytes.Equal(once, twice) {
			t.Fatalf("%x, then %x", once, twice)
		}
	})
}
