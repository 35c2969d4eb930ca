package table

import (
	"bytes"
	"testing"
)

func TestAligned(t *testing.T) {
	var out bytes.Buffer
	x := &Aligned{Right: []bool{false, true}}
	x.Row("name", "n", "last")
	x.Row("é", "1,000", "")
	x.Row("", "5", "x")
	if err := x.Write(&out); err != nil {
		t.Fatal(err)
	}
	if want := "name      n  last\né     1,000\n          5  x\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
